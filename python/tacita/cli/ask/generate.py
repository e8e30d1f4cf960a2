"""`tacita generate` continues a text, token by token, by a decoder: here, or with a server that sees neither
the prompt nor what comes behind it, over its port or by a service. A file of prompts is continued line by
line, here: on ciphertexts a request holds many of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from tacita import api
from tacita.cli.ask.remote import (
    AT_A_PORT,
    CONNECTED,
    NETWORK,
    expectation,
    is_service,
    open_session,
    service_of,
)
from tacita.cli.columns import Line, admitted, read_lines
from tacita.cli.console import (
    INCOMPLETE,
    UNTRUSTED,
    duration,
    err,
    out,
    progress,
    say,
    several,
    shown,
    size,
    write_report,
)
from tacita.cli.options import Json, TextFile, model_folder, option, read_prices, read_texts, taking
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
from tacita.generation.generate import PLACE, ROOM, Request, Shown, generate_batch
from tacita.planning.options import gap_of
from tacita.resources import require_device
from tacita.schemes.base import REAL, Report
from tacita.schemes.prices import prices_here
from tacita.settings import Settings
from tacita.texts.embed import length_of
from tacita.texts.embedding import Embedder
from tacita.texts.generation import TOKENS, Choice, TextOptions, Token, only
from tacita.texts.task import require_kind
from tacita.two_party.client import most_slots
from tacita.two_party.program.program import Program
from tacita.two_party.program.run import Watch

LINE = {
    "plan": ("model", "scheme", "tokens", "preset", "texts", "begin", "reveal", "cache"),
    "run": ("backend",),
    "network": ("connect", "trust", "prepared"),
}
SAME = ("begin", "scheme", "preset", "reveal", "functions", "packing")  # keys of a plan that a request has
FILE = {
    "plan": ("gap", "link", "functions", "packing", "prices"),
    "run": ("threads", "device", "memory", "work", "allow_insecure", "show_anyway", "seed"),
    "network": NETWORK,
}


@dataclass
class Timed:
    """The tokens as they came, with seconds of each, the prompt's in the first. ended: whether all came."""

    tokens: list[Token] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    ended: bool = False

    def add(self, token: Token, seconds: float) -> None:
        self.tokens.append(token)
        self.seconds.append(seconds)

    @property
    def text(self) -> str:
        """What was written."""
        return "".join(token.text for token in self.tokens)

    @property
    def sound(self) -> bool:
        """Whether no value has left its range."""
        return all(token.sound for token in self.tokens)

    def written(self) -> dict[str, Any]:
        """Returns what `--json` has of a text. A token that is withheld is left out."""
        return {
            "text": self.text,
            "tokens": [token.id for token in self.tokens if token.id >= 0],
            "near": {str(at): list(token.near) for at, token in enumerate(self.tokens) if token.near},
            "trusted": self.ended and all(token.sound and not token.near for token in self.tokens),
        }

    def report(self) -> dict[str, Any]:
        """Returns the figures of `--json`."""
        first, *later = self.seconds
        mean = sum(later) / len(later) if later else None
        return self.written() | {"prefill": {"wall_seconds": first}, "token": {"wall_seconds": mean}}

    def warn(self, line: str = "") -> int:
        """Warns of tokens that are in doubt, and returns the exit status. line: what the warnings begin
        with."""
        if not self.sound:
            err.print(f"[yellow]{line}values left the calibrated ranges: do not trust these tokens[/yellow]")
            return UNTRUSTED
        near = [(at, token) for at, token in enumerate(self.tokens, 1) if token.near]
        for at, token in near:
            others = ", ".join(shown(repr(text)) for text in token.near[:3])
            err.print(
                f"[yellow]{line}token {at}, {shown(repr(token.text))}, and {others} are a tie: their logits "
                "are within a step of their rounding, and floats may go on with another[/yellow]",
                soft_wrap=True,
            )
        return INCOMPLETE if near else 0


Texts: TypeAlias = Iterator[tuple[int, Token]]  # numbers of texts and their tokens


@dataclass(frozen=True)
class Session:
    """A session with a server. cost: bytes so far, and rounds over a port. front: the client's part of the
    model. room: positions of a prompt and what is read behind it. tokens: writes behind prompts, after saying
    what all will cost. alone: whether one text is written after the other, not all in turn."""

    cost: Callable[[], dict[str, Any]]
    front: Embedder
    room: int
    tokens: Callable[[Sequence[str], TextOptions], Texts]
    alone: bool = False


@taking(LINE, FILE, CONNECTED, AT_A_PORT)
def run(
    *,
    prompt: Annotated[
        str | None, typer.Argument(help="Text that the model goes on behind.", show_default=False)
    ] = None,
    file: TextFile = None,
    settings: Settings,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens at most.", min=1)] = TOKENS,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Above 0, tokens are drawn by chance.", min=0.0)
    ] = 0.0,
    top_k: Annotated[int, typer.Option("--top-k", help="Of so many likeliest alone (0: all).", min=0)] = 0,
    stop: Annotated[
        list[str] | None, option("--stop", help="A text before which it ends; may be given again.")
    ] = None,
    json: Json = None,
) -> None:
    """Go on behind a text with a decoder: in the clear, on ciphertexts, or by --connect with a server that
    sees neither the text nor what comes behind it. With a service, --scheme thor makes each token a request
    of ciphertexts; by default both sides compute together."""
    choice, backend = Choice(temperature, top_k, settings.run.seed), settings.run.backend or "plain"
    more = {"show_anyway": settings.run.show_anyway, "cache": settings.plan.cache}
    options = TextOptions(max_tokens, tuple(stop or ()), choice, **more)
    connect = settings.network.connect
    require_device(settings.run.device, connect and "--connect", backend != REAL and f"--backend {backend}")
    if (prompt is None) == (file is None):
        raise InputError("generate: give a prompt or a --file of them", hint="exactly one of the two")
    if connect:
        status = _connected(prompt, file, options, settings, json)
    elif file is not None:
        status = _of_file(file, _request(settings, backend, options), settings, json)
    else:
        request = _request(settings, backend, options)
        with progress("plan") as report:
            tokens = generate_batch(_model(settings), [prompt or ""], request, _screen(report))
        status = _show_all(tokens, request, json)
    if status:
        raise typer.Exit(status)


def _model(settings: Settings) -> Path:
    return model_folder(settings.plan.model or DEFAULT_DECODER)


def _screen(report: Report) -> Shown:
    """Returns callbacks that say the cost, and show the work on bars."""
    return Shown(report, lambda now: err.print(now.stage, soft_wrap=True), progress)


def _of_file(path: Path, request: Request, settings: Settings, json: Path | None) -> int:
    """Continues the prompts of a file, and returns the exit status as `_show_file`. Without --tokens a text
    may have the power of two that the longest needs."""
    model = api.load(_model(settings))
    require_kind("generate", model.config)
    free = settings.plan.tokens is None and (request.on_ciphertexts or request.backend == "plain")
    room = model.config.positions if free else min(model.config.positions, request.tokens)
    good, bad = admitted(model, room + 1 - request.max_tokens, read_lines(path), path)
    if free and request.on_ciphertexts:  # the server learns this bound of all lengths
        longest = max(length_of(model, line.text) for line in good)
        request = replace(request, tokens=max(2, 1 << (longest + request.max_tokens - 2).bit_length()))
    with progress("plan") as report:
        texts = generate_batch(model, [str(line.text) for line in good], request, _screen(report))
    return _show_file(good, bad, texts, json)


def _show_file(
    good: Sequence[Line], bad: Sequence[Line], tokens: Texts, json: Path | None, by: Session | None = None
) -> int:
    """Shows and reports the texts behind good lines, and returns the exit status: the worst of all, or
    `INCOMPLETE` where lines are left out. What came before an error or Ctrl-C is shown and reported, too."""
    texts, seconds, began = [Timed() for _ in good], list[float](), time.monotonic()
    try:
        for number, token in tokens:
            if (by and by.alone) or len(texts[number].tokens) == len(seconds):  # the first of its turn
                seconds.append(time.monotonic() - began)
                began = time.monotonic()
            texts[number].add(token, seconds[-1])
        for text in texts:
            text.ended = True
    finally:
        rows = [{"line": line.number} | text.written() for line, text in zip(good, texts, strict=True)]
        left_out = [{"line": line.number, "error": line.problem} for line in bad]
        report = {"results": rows, "turn_seconds": seconds, "rejected": left_out}
        write_report(json, report | (by.cost() if by else {}))
        for line, text in zip(good, texts, strict=True):
            parts = [shown(str(part), len(str(part))) for part in (line.text, text.text)]
            say(f"{line.number}: {parts[0]} [bold]|[/bold]{parts[1]}")
    return max(
        INCOMPLETE if bad else 0,
        *(text.warn(f"{line.number}: ") for line, text in zip(good, texts, strict=True)),
    )


def _request(settings: Settings, backend: str, options: TextOptions) -> Request:
    """Returns what is asked of a model here. Raises InputError for a scheme that continues no text."""
    plan, run, more = settings.plan, settings.run, dict[str, Any](backend=backend)
    more |= {"tokens": plan.tokens or ROOM, "texts": read_texts(plan.texts)}
    more |= {name: getattr(plan, name) for name in SAME}
    more |= {name: getattr(run, name) for name in ("allow_insecure", *PLACE)}
    request = Request(**vars(options), **more, gap=gap_of(plan.reveal, plan.gap))
    if not request.on_ciphertexts:
        return request
    return replace(request, prices=read_prices(plan.prices) or prices_here(plan.preset))


def _show_all(tokens: Texts, request: TextOptions, json: Path | None, by: Session | None = None) -> int:
    """Shows each token of a text as it comes, escaped but for its line ends, and returns the exit status.
    Tokens that came before the connection broke for good, or Ctrl-C, are reported too."""
    timed, began = Timed(), time.monotonic()
    try:
        for token in only(tokens, request):
            timed.add(token, time.monotonic() - began)
            lines = [shown(line, len(line)) for line in token.text.split("\n")]
            out.print("\n".join(lines), end="", soft_wrap=True)
            began = time.monotonic()
        timed.ended = True
        out.print()
    finally:
        if timed.tokens:
            write_report(json, timed.report() | (by.cost() if by else {}))
    return timed.warn()


def _connected(
    prompt: str | None, file: Path | None, request: TextOptions, settings: Settings, json: Path | None
) -> int:
    """Generates with a server, and returns the exit status."""
    lines = read_lines(file) if file else []
    session_of = _by_a_service if is_service(settings) else _over_a_port
    with session_of(settings, len(lines) or 1, request.max_tokens) as session:
        began = time.monotonic()
        if prompt is None:
            good, bad = admitted(session.front, session.room + 1 - request.max_tokens, lines, file)
            tokens = session.tokens([str(line.text) for line in good], request)
            status = _show_file(good, bad, tokens, json, session)
        else:
            status = _show_all(session.tokens([prompt], request), request, json, session)
        say(f"session: {cost_line(session.cost(), time.monotonic() - began)}")
    return status


# Generation with a server.


def _of_two_parties(
    plan: Program,
    front: Embedder,
    generate: Callable[[str, TextOptions, Watch], Iterator[Token]],
    prompts: Sequence[str],
    options: TextOptions,
) -> Texts:
    """Yields tokens of two parties, one text after the other. generate: calls its watch as each step begins.
    Raises InputError, PeerError, RefusedError."""
    chance = options.choice.temperature, options.choice.top_k
    slots = most_slots(plan, front, prompts, options.max_tokens)
    more = f"; {len(prompts)} texts in turn, this is the longest prompt" if len(prompts) > 1 else ""
    for number, prompt in enumerate(prompts):
        with watching(plan, "prompt", {}) as watch:
            tokens = generate(prompt, options, watch)
            if not number:
                say(f"expected: {writing_expectation(plan, slots, *chance)}{more}")
            first = next(tokens)
        yield number, first
        yield from ((number, token) for token in tokens)


@contextmanager
def _over_a_port(settings: Settings, texts: int, _: int) -> Iterator[Session]:
    greet = partial(open_client, link=settings.plan.link)
    session = RenewableSession(lambda: dial_server(settings), greet)
    try:
        before = prepare_ahead(session, min(texts, settings.network.prepared))
        if before:
            say(f"before the text: {cost_line(before, before['seconds'])}")
        apart = {"before": before} if before else {}
        plan, front = session.plan, session.part.front
        tokens = partial(_of_two_parties, plan, front, session.generate)
        yield Session(lambda: session.cost | apart, front, plan.tokens, tokens, alone=True)
    finally:
        session.close(politely=True)


@contextmanager
def _by_a_service(settings: Settings, texts: int, most: int) -> Iterator[Session]:
    model, meter = settings.plan.model, Meter()
    with service_of(settings) as service:
        name = str(model) if model else None
        of = settings.plan.scheme, meter, texts, most, settings.plan.cache
        session = open_session(service, ["generate"], name, *of)
        plan, front = session.plan, session.front
        if front is None:
            raise InputError("the model starts from hidden states", hint="ask it from Python")

        def generate(prompt: str, options: TextOptions, watch: Watch) -> Iterator[Token]:
            return service.each(session.generate(prompt, options, meter, lambda now: watch(now.stage)))

        def by_requests(prompts: Sequence[str], options: TextOptions) -> Texts:
            """Yields tokens of ciphertexts, those of one text each under a bar of its own."""
            what, offer = "token" if len(prompts) == 1 else "request", session.offer
            what = "row" if offer.kept_bytes else what
            read = max(length_of(front, prompt) for prompt in prompts) - 1 if offer.kept_bytes else 0
            most = (read + options.max_tokens) * -(-len(prompts) // plan.batch)
            sent = size(most * (offer.request_bytes + offer.response_bytes))
            whole = f"{several(most, what)} at most, {duration(most * offer.seconds)} and {sent} in all"
            say(f"{expectation(offer, what)}; {whole}")
            tokens = service.each(session.generate_batch(prompts, options, meter, lambda now: report(now)))
            for number in count(1):
                with progress(f"token {number}" if len(prompts) == 1 else "texts") as report:
                    token = next(tokens, None)
                if token is None:
                    return
                yield token

        def cost() -> dict[str, float]:
            return {"bytes_sent": meter.sent, "bytes_received": meter.received}

        if isinstance(plan, Program):
            of_two = partial(_of_two_parties, plan, front, generate)
            yield Session(cost, front, plan.tokens, of_two, alone=True)
        else:
            yield Session(cost, front, min(plan.tokens, front.config.positions), by_requests)
