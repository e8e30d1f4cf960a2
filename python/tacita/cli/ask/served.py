"""Asks a service, whatever the scheme: `tacita classify --connect https://...` and its like."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tacita.cli.ask.columns import Line, admitted
from tacita.cli.asked import brackets, summary_of, text_of
from tacita.cli.console import duration, err, out, progress, reporting, several, shown, size, write_report
from tacita.cli.options import option
from tacita.cli.two_party.connect import Asking
from tacita.client.connect import connect
from tacita.client.cost import Cost, Meter
from tacita.data import DEFAULT_MODEL
from tacita.errors import InputError, TacitaError
from tacita.resources import peak_memory_gb
from tacita.texts.answer import Answer
from tacita.texts.embedding import Embedder

if TYPE_CHECKING:
    from tacita.client.blocking import BlockingSession, Service


# Where a command takes its token from: a file, or the environment; never the command line, which others of
# the machine can read.

VARIABLE = "TACITA_TOKEN"
MOST = 4096  # bytes
TokenFile = Annotated[
    Path | None,
    option(
        "--token-file",
        help=f"With --connect https://...: file that holds the token (default: variable {VARIABLE}).",
    ),
]


def token_of(path: Path | None) -> str | None:
    """Returns the token of the file or the environment, or None. Raises InputError, which does not repeat
    what the file holds."""
    if path is None:
        return os.environ.get(VARIABLE, "").strip() or None
    try:
        with path.open("rb") as file:
            token = file.read(MOST + 1).decode("ascii").strip()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", hint="a file with a token") from None
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > MOST or not token.isprintable() or " " in token:
        raise InputError(f"{path}: holds no token", hint="one line, as the operator gave it")
    return token


@dataclass(frozen=True)
class Served:
    """A service, and whom to trust there: the arguments of `tacita.connect`."""

    url: str
    trust: Path | None
    fingerprint: str | None
    token: Path | None
    timeout: float
    threads: int
    allow_insecure: bool

    def connect(self) -> Service:
        """Makes the client; nothing is sent yet. Raises InputError."""
        return connect(
            self.url,
            token=token_of(self.token),
            trust=self.trust,
            fingerprint=self.fingerprint,
            timeout=self.timeout,
            threads=self.threads,
            allow_insecure=self.allow_insecure,
        )


@dataclass(frozen=True)
class Result:
    """A text's answer. request: its number, from 1. cost: of all texts of that request."""

    line: Line
    answer: Answer
    request: int
    cost: Cost


def ask(
    question: Asking, how: Served, folder: Path, scheme: str | None, json: Path | None
) -> tuple[list[Result], bool, str]:
    """Asks every text and shows what it cost. Returns all answers, whether there is one for each line, and
    the model's name. folder: as --model gives it, a name at the service. Raises InputError for what is not
    offered."""
    began = time.monotonic()
    with how.connect() as service:
        session, opening = _open_priced(service, question, named(service, folder), scheme)
        question.suits(session.plan.name, "")
        good, spoiled = admitted(_front(session), session.plan.tokens, question.lines, question.file)
        results = _answered(session, question, good, opening, json, began)
        figures = report(session, results, opening, time.monotonic() - began)
        bad = {line.number for line in question.lines} - {line.number for line in good}
        figures["rejected"] = sorted(bad)
    with reporting(json, figures):
        out.print(f"all: {_cost_line(figures)}", soft_wrap=True)
    return results, not spoiled, session.plan.name


def named(service: Service, folder: Path) -> str | None:
    """Returns the model to ask for: None where the option was left out and the service has no such model."""
    if folder != DEFAULT_MODEL:
        return str(folder)
    offered = {each.name for each in service.models().models}
    return DEFAULT_MODEL.name if DEFAULT_MODEL.name in offered else None


def report(
    session: BlockingSession, results: Sequence[Result], opening: Cost, seconds: float
) -> dict[str, Any]:
    """Returns the figures of `--json`. Bytes and seconds of steps are sums over all requests and what came
    before them. opening: the cost of opening the session; seconds: of everything."""
    plan, costs = session.plan, {0: opening, **{result.request: result.cost for result in results}}
    steps = dict.fromkeys(step for cost in costs.values() for step in cost.seconds)
    return {
        "scheme": plan.scheme,
        "model": plan.name,
        "tokens": plan.tokens,
        "plan_hash": plan.hash,
        "encrypted": True,
        "inputs": len(results),
        "requests": len(costs) - 1,
        "texts_per_request": plan.batch,
        "results": [_row(result) for result in results],
        "seconds": seconds,
        "steps": {step: sum(cost.seconds.get(step, 0.0) for cost in costs.values()) for step in steps},
        "bytes_sent": sum(cost.sent for cost in costs.values()),
        "bytes_received": sum(cost.received for cost in costs.values()),
        "peak_rss_gb": peak_memory_gb(),
    }


def _open_priced(
    service: Service, question: Asking, model: str | None, scheme: str | None
) -> tuple[BlockingSession, Cost]:
    """Opens a session and shows its plan and what a request will take. Returns also what opening cost."""
    verbs, meter = [question.verb, *question.others], Meter()
    session = open_session(service, verbs, model, scheme, meter, len(question.lines))
    offer = session.offer
    sent = size(offer.traffic_bytes or offer.request_bytes + offer.response_bytes)
    keys = f", and {size(offer.keys_bytes)} of keys, made and sent once" if offer.keys_bytes else ""
    out.print(f"expected: {duration(offer.seconds)} and {sent} a request{keys}", soft_wrap=True)
    return session, meter.cost


def open_session(
    service: Service,
    verbs: Sequence[str],
    model: str | None,
    scheme: str | None,
    meter: Meter,
    texts: int = 1,
) -> BlockingSession:
    """Opens a session and shows its plan."""
    session = service.open(verbs, model, scheme, meter, texts)
    plan, bits = session.plan, session.offer.security_bits
    secure = f", {bits} bits" if bits else ""
    out.print(
        f"{shown(plan.name)}: {plan.scheme}, {plan.tokens} tokens, {several(plan.batch, 'text')} a request"
        f"{secure}; plan {plan.hash[:12]}",
        soft_wrap=True,
    )
    return session


def _front(session: BlockingSession) -> Embedder:
    """Returns the tokenizer and the embedding. Raises InputError for a model without."""
    if session.front is None:
        raise InputError("the model starts from hidden states", hint="ask it from Python")
    return session.front


def _answered(
    session: BlockingSession,
    question: Asking,
    lines: Sequence[Line],
    opening: Cost,
    json: Path | None,
    began: float,
) -> list[Result]:
    """Asks as many texts a request as the plan holds. When one fails, the answers that came are written to
    the report before the error goes on."""
    batch, results = session.plan.batch, list[Result]()
    groups = [lines[at : at + batch] for at in range(0, len(lines), batch)]
    try:
        for number, group in enumerate(groups, 1):
            title = f"request {number} of {len(groups)}" if len(groups) > 1 else "request"
            results += _one(session, question, group, number, title)
    except (TacitaError, KeyboardInterrupt):
        if results:
            figures = report(session, results, opening, time.monotonic() - began)
            write_report(json, {**figures, "unanswered": [line.number for line in lines[len(results) :]]})
        raise
    return results


def _one(
    session: BlockingSession, question: Asking, group: Sequence[Line], number: int, title: str
) -> list[Result]:
    meter = Meter()
    with progress(title) as bar:
        answers = map(question.visible, session.answer([line.text for line in group], meter, bar))
    results = [Result(*pair, number, meter.cost) for pair in zip(group, answers, strict=True)]
    for result in results:
        _show(result)
    return results


def _show(result: Result) -> None:
    answer = result.answer
    out.print(
        f"[bold]{summary_of(answer)}[/bold]{brackets(answer)}  {text_of(result.line.text)}", soft_wrap=True
    )
    for warning in answer.warnings:
        err.print(f"[yellow]warning:[/yellow] {shown(warning)}", soft_wrap=True)


def _cost_line(figures: dict[str, Any]) -> str:
    steps = ", ".join(f"{step} {duration(seconds)}" for step, seconds in figures["steps"].items())
    sent, received = size(figures["bytes_sent"]), size(figures["bytes_received"])
    return f"{duration(figures['seconds'])} ({steps}), {sent} sent, {received} received"


def _row(result: Result) -> dict[str, Any]:
    return {
        "line": result.line.number,
        "request": result.request,
        **result.answer.to_json(),
        "seconds": sum(result.cost.seconds.values()),
        "steps": dict(result.cost.seconds),
    }
