"""`tacita generate` continues a text, token by token, by a decoder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita.cli.ask.running import connecting
from tacita.cli.ask.served import Served
from tacita.cli.console import INCOMPLETE, UNTRUSTED, err, out, progress, shown, write_report
from tacita.cli.options import (
    PRESET_DEFAULT,
    BackendName,
    Begin,
    Gap,
    Insecure,
    Json,
    Preset,
    Reveal,
    RevealName,
    ShowAnyway,
    Texts,
    option,
    read_texts,
)
from tacita.cli.two_party.connect import Connection, cost_line
from tacita.cli.two_party.writing import writing
from tacita.data import DEFAULT_DECODER
from tacita.errors import InputError
from tacita.generation.encrypted import Shown
from tacita.generation.generate import started
from tacita.planning.generation import ROOM, Request
from tacita.planning.options import GAP
from tacita.schemes.prices import prices_here
from tacita.texts.generation import TOKENS, Choice, Token


class OneText(StrEnum):
    """Schemes that continue a text."""

    thor = "thor"
    leaf = "leaf"
    bumblebee = "bumblebee"


@dataclass
class Timed:
    """The tokens as they came, and the seconds that each took; those of the first include the prompt. ended:
    whether all of them came."""

    tokens: list[Token] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    ended: bool = False

    def watch(self, tokens: Iterator[Token]) -> Iterator[Token]:
        """Yields the same tokens, and notes each with its seconds."""
        began = time.monotonic()
        for token in tokens:
            self.tokens.append(token)
            self.seconds.append(time.monotonic() - began)
            yield token
            began = time.monotonic()
        self.ended = True

    def report(self) -> dict[str, Any]:
        """Returns the figures of `--json`."""
        later = self.seconds[1:]
        return {
            "text": "".join(token.text for token in self.tokens),
            "tokens": [token.id for token in self.tokens],
            "prefill": {"wall_seconds": self.seconds[0]},
            "token": {"wall_seconds": sum(later) / len(later) if later else None},
            "near": {str(at): list(token.near) for at, token in enumerate(self.tokens) if token.near},
            "trusted": self.ended and all(token.sound and not token.near for token in self.tokens),
        }

    def warn(self) -> None:
        """Warns of tokens that are in doubt, and raises typer.Exit if there are any."""
        if not all(token.sound for token in self.tokens):
            err.print("[yellow]values left the calibrated ranges: do not trust these tokens[/yellow]")
            raise typer.Exit(UNTRUSTED)
        near = [(at, token) for at, token in enumerate(self.tokens, 1) if token.near]
        for at, token in near:
            others = ", ".join(shown(repr(text)) for text in token.near[:3])
            err.print(
                f"[yellow]token {at}, {shown(repr(token.text))}, and {others} are a tie: their logits are "
                "within a step of their rounding, and floats may go on with another[/yellow]",
                soft_wrap=True,
            )
        if near:
            raise typer.Exit(INCOMPLETE)


@connecting
def run(
    connection: Connection | Served | None,
    prompt: Annotated[str, typer.Argument(help="Text that the model goes on behind.")],
    model: Annotated[
        Path | None,
        option(
            "--model",
            help="Hugging Face folder of a decoder, or a GGUF file (default: the package's austen-tiny); at "
            "a service, the name of one of its models.",
        ),
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens at most.", min=1)] = TOKENS,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Above 0, tokens are drawn by chance.", min=0.0)
    ] = 0.0,
    top_k: Annotated[int, typer.Option("--top-k", help="Of so many likeliest alone (0: all).", min=0)] = 0,
    stop: Annotated[
        list[str] | None, option("--stop", help="A text before which it ends; may be given again.")
    ] = None,
    seed: Annotated[int | None, option("--seed", help="Of the chance (default: a fresh one).", min=0)] = None,
    backend: Annotated[
        BackendName,
        typer.Option(
            "--backend",
            help="plain: floats. sim: the integers of two parties; with --scheme thor or leaf the noise of "
            "ciphertexts. ckks: ciphertexts, both sides on this machine.",
        ),
    ] = BackendName.plain,
    scheme: Annotated[
        OneText | None,
        option("--scheme", help="thor, leaf: every token from ciphertexts. bumblebee: two parties, as sim."),
    ] = None,
    tokens: Annotated[
        int, typer.Option("--tokens", help="Of a plan, tokens that the whole text may have.", min=2)
    ] = ROOM,
    preset: Preset = PRESET_DEFAULT,
    allow_insecure: Insecure = False,
    reveal: Reveal = None,
    gap: Gap = GAP,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            help="With --scheme thor: the server keeps rows of earlier tokens as ciphertexts, and every "
            "request is one row; it learns how many there were.",
        ),
    ] = False,
    begin: Begin = "",
    texts: Texts = None,
    json: Json = None,
    show_anyway: ShowAnyway = False,
) -> None:
    """Go on behind a text with a decoder: in the clear, on ciphertexts, or by --connect with a server that
    sees neither the text nor what comes behind it."""
    choice, timed, name = Choice(temperature, top_k, seed), Timed(), None
    stops, calibration = tuple(stop or ()), read_texts(texts)
    named = scheme.value if scheme else None
    of = tokens, calibration, begin, named, preset, allow_insecure
    request = Request(max_tokens, stops, choice, backend.value, *of)
    request = replace(request, reveal=reveal.value if reveal else None, gap=gap, cache=cache)
    request = replace(request, show_anyway=show_anyway)
    request = replace(request, prices=prices_here(preset)) if request.on_ciphertexts else request
    if connection is None:
        try:
            _show_all(timed, _here(model or DEFAULT_DECODER, prompt, request))
        finally:
            if timed.tokens:
                write_report(json, timed.report())
    else:
        if isinstance(connection, Served):  # which has several models, and maybe schemes
            model, name, scheme = None, model, None if scheme is OneText.bumblebee else scheme
        _require_nothing(model, backend, scheme, begin, texts, reveal)
        _connected(timed, prompt, request, connection, str(name) if name else None, json)
    timed.warn()


def _show_all(timed: Timed, tokens: Iterator[Token]) -> None:
    """Shows each token as it comes."""
    for token in timed.watch(tokens):
        _show(token.text)
    out.print()


def _connected(
    timed: Timed,
    prompt: str,
    request: Request,
    how: Connection | Served,
    model: str | None,
    json: Path | None,
) -> None:
    """Generates with a server. Tokens that came before the connection broke for good, or Ctrl-C, are reported
    too."""
    with writing(how, model) as session:
        try:
            _show_all(timed, session.tokens(prompt, request))
        finally:
            if timed.tokens:
                write_report(json, timed.report() | session.cost())
        out.print(f"session: {cost_line(session.cost(), sum(timed.seconds))}", soft_wrap=True)


def _here(model: Path, prompt: str, request: Request) -> Iterator[Token]:
    """Generates on this machine. On ciphertexts it says the cost, and shows bars of the work."""
    with progress("plan") as report:
        screen = Shown(report, lambda now: err.print(now.stage, soft_wrap=True), progress)
        return started(model, prompt, request, screen)


def _require_nothing(
    model: Path | None,
    backend: BackendName,
    scheme: OneText | None,
    begin: str,
    texts: Path | None,
    reveal: RevealName | None,
) -> None:
    """Raises InputError for options that the server decides."""
    chosen = backend is not BackendName.plain
    options = {"--model": model, "--backend": chosen, "--scheme": scheme, "--begin": begin, "--texts": texts}
    if named := [name for name, value in {**options, "--reveal": reveal}.items() if value]:
        raise InputError(
            f"generate: {', '.join(named)} with --connect", hint="the server has them: leave it out"
        )


def _show(text: str) -> None:
    """Shows a text at once, escaped but for its line ends."""
    lines = [shown(line, len(line)) for line in text.split("\n")]
    out.print("\n".join(lines), end="", soft_wrap=True)
