"""`tacita generate` continues a text, token by token, by a decoder: here, or with a server that sees neither
the prompt nor what comes behind it, over its port or by a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita.cli.ask.remote import NETWORK, is_service, open_session, service_of
from tacita.cli.console import INCOMPLETE, UNTRUSTED, err, out, progress, say, shown, write_report
from tacita.cli.options import Json, model_folder, option, read_texts, taking
from tacita.cli.service.port import (
    cost_line,
    dial_server,
    open_client,
    prepare_ahead,
    watching,
    writing_expectation,
)
from tacita.client.calls import Meter
from tacita.client.connected import RenewableSession
from tacita.data import DEFAULT_DECODER
from tacita.errors import InputError
from tacita.generation.generate import ROOM, Request, Shown, started
from tacita.plans.scheme import BUMBLEBEE
from tacita.schemes.prices import prices_here
from tacita.settings import Settings
from tacita.texts.embedding import Embedder
from tacita.texts.generation import TOKENS, Choice, TextOptions, Token, ids_of
from tacita.two_party.client import padded_slots
from tacita.two_party.program.program import Program
from tacita.two_party.program.run import Watch

SCHEMES = ("thor", "leaf", BUMBLEBEE)  # that continue a text
LINE = {
    "plan": ("model", "scheme", "tokens", "preset", "texts", "begin", "reveal"),
    "run": ("backend",),
    "network": ("connect", "trust", "prepared"),
}
FILE = {
    "plan": ("gap", "link"),
    "run": ("threads", "allow_insecure", "show_anyway"),
    "network": NETWORK,
}


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


@taking(LINE, FILE)
def run(
    prompt: Annotated[str, typer.Argument(help="Text that the model goes on behind.")],
    settings: Settings,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens at most.", min=1)] = TOKENS,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Above 0, tokens are drawn by chance.", min=0.0)
    ] = 0.0,
    top_k: Annotated[int, typer.Option("--top-k", help="Of so many likeliest alone (0: all).", min=0)] = 0,
    stop: Annotated[
        list[str] | None, option("--stop", help="A text before which it ends; may be given again.")
    ] = None,
    seed: Annotated[int | None, option("--seed", help="Of the chance (default: a fresh one).", min=0)] = None,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            help="With --scheme thor: the server keeps rows of earlier tokens as ciphertexts, and every "
            "request is one row; it learns how many there were.",
        ),
    ] = False,
    json: Json = None,
) -> None:
    """Go on behind a text with a decoder: in the clear, on ciphertexts, or by --connect with a server that
    sees neither the text nor what comes behind it."""
    timed, stops = Timed(), tuple(stop or ())
    request = _request(settings, max_tokens, stops, Choice(temperature, top_k, seed), cache=cache)
    if settings.network.connect:
        _require_nothing(settings)
        _connected(timed, prompt, request, settings, json)
    else:
        try:
            with progress("plan") as report:  # on ciphertexts the cost is said, and bars show the work
                screen = Shown(report, lambda now: err.print(now.stage, soft_wrap=True), progress)
                tokens = started(
                    model_folder(settings.plan.model or DEFAULT_DECODER), prompt, request, screen
                )
            _show_all(timed, tokens)
        finally:
            if timed.tokens:
                write_report(json, timed.report())
    timed.warn()


def _request(
    settings: Settings, max_tokens: int, stops: tuple[str, ...], choice: Choice, *, cache: bool
) -> Request:
    """Returns what is asked for. Raises InputError for a scheme that continues no text."""
    plan, run = settings.plan, settings.run
    if plan.scheme not in (None, *SCHEMES):
        raise InputError(f"generate: --scheme {plan.scheme!r:.40}", hint=f"one of {', '.join(SCHEMES)}")
    backend = run.backend or "plain"
    of = plan.tokens or ROOM, read_texts(plan.texts), plan.begin, plan.scheme, plan.preset, run.allow_insecure
    request = Request(max_tokens, stops, choice, backend, *of)
    request = replace(request, reveal=plan.reveal, gap=plan.gap, cache=cache, show_anyway=run.show_anyway)
    return replace(request, prices=prices_here(plan.preset)) if request.on_ciphertexts else request


def _show_all(timed: Timed, tokens: Iterator[Token]) -> None:
    """Shows each token as it comes, escaped but for its line ends."""
    for token in timed.watch(tokens):
        lines = [shown(line, len(line)) for line in token.text.split("\n")]
        out.print("\n".join(lines), end="", soft_wrap=True)
    out.print()


def _connected(timed: Timed, prompt: str, request: Request, settings: Settings, json: Path | None) -> None:
    """Generates with a server. Tokens that came before the connection broke for good, or Ctrl-C, are reported
    too."""
    with (_by_a_service if is_service(settings) else _over_a_port)(settings) as session:
        try:
            _show_all(timed, session.tokens(prompt, request))
        finally:
            if timed.tokens:
                write_report(json, timed.report() | session.cost())
        say(f"session: {cost_line(session.cost(), sum(timed.seconds))}")


def _require_nothing(settings: Settings) -> None:
    """Raises InputError for settings that the server decides. A service has several models."""
    plan, service = settings.plan, is_service(settings)
    decided = {
        "--model": plan.model and not service,
        "--backend": settings.run.backend not in (None, "plain"),
        "--scheme": plan.scheme and not (service and plan.scheme == BUMBLEBEE),
        "--begin": plan.begin,
        "--texts": plan.texts,
        "--reveal": plan.reveal,
    }
    if named := [name for name, value in decided.items() if value]:
        raise InputError(
            f"generate: {', '.join(named)} with --connect", hint="the server has them: leave it out"
        )


# Generation with a server.


@dataclass(frozen=True)
class GenerationSession:
    """A generation session with a server. generate: yields tokens behind a prompt, and calls its watch as
    each step begins. cost: bytes so far, and rounds over a port."""

    plan: Program
    front: Embedder
    generate: Callable[[str, TextOptions, Watch], Iterator[Token]]
    cost: Callable[[], dict[str, Any]]

    def tokens(self, prompt: str, options: TextOptions) -> Iterator[Token]:
        """Yields token by token, after saying what they will cost. Raises InputError, PeerError,
        RefusedError."""
        with watching(self.plan, "prompt", {}) as watch:
            tokens = self.generate(prompt, options, watch)
            count = len(ids_of(self.front, prompt, begun=bool(self.plan.begin)))
            slots = padded_slots(self.plan, count, options.max_tokens)
            chance = options.choice.temperature, options.choice.top_k
            say(f"expected: {writing_expectation(self.plan, slots, *chance)}")
            first = next(tokens)
        yield first
        yield from tokens


@contextmanager
def _over_a_port(settings: Settings) -> Iterator[GenerationSession]:
    greet = partial(open_client, link=settings.plan.link)
    session = RenewableSession(lambda: dial_server(settings), greet)
    try:
        before = prepare_ahead(session, min(1, settings.network.prepared))
        if before:
            say(f"before the text: {cost_line(before, before['seconds'])}")
        apart = {"before": before} if before else {}
        yield GenerationSession(
            session.plan, session.part.front, session.generate, lambda: session.cost | apart
        )
    finally:
        session.close(politely=True)


@contextmanager
def _by_a_service(settings: Settings) -> Iterator[GenerationSession]:
    model = settings.plan.model
    with service_of(settings) as service:
        meter = Meter()
        session = open_session(service, ["generate"], str(model) if model else None, BUMBLEBEE, meter)
        assert isinstance(session.plan, Program) and session.front is not None  # by its scheme

        def generate(prompt: str, options: TextOptions, watch: Watch) -> Iterator[Token]:
            return service.each(session.generate(prompt, options, meter, lambda now: watch(now.stage)))

        def cost() -> dict[str, float]:
            return {"bytes_sent": meter.sent, "bytes_received": meter.received}

        yield GenerationSession(session.plan, session.front, generate, cost)
