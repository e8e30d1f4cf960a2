"""`tacita classify --connect` and its like: texts answered together with a server that does not see them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from tacita.cli.answers import brackets, said, text_of
from tacita.cli.ask.lines import Line, admitted
from tacita.cli.console import err, out, progress, reporting, several, shown, size, write_report
from tacita.cli.two_party.connection import address, cost_line, expectation, show_profile, watching
from tacita.client.answer import Answer
from tacita.client.public_cache import PublicCache
from tacita.client.two_party import TwoPartyClient
from tacita.errors import TacitaError
from tacita.protocol.party import Identity, Party, dial
from tacita.remote.renewable import RenewableSession
from tacita.run.progress import Progress
from tacita.run.resources import peak_memory_gb
from tacita.tasks.kinds import GIVES, kind_of, require_kind


@dataclass(frozen=True)
class Trusted:
    """Who may be the server: one of this certificate file, for a name or the dialled host; the one of this
    hash; anybody.
    """

    certificate: Path | None
    fingerprint: str | None
    name: str | None
    insecure_plain: bool


@dataclass(frozen=True)
class Connection:
    """How to reach the server, and whether to show what operations cost."""

    target: str
    trusted: Trusted
    identity: Identity | None
    timeout: float
    threads: int
    profile: bool


@dataclass(frozen=True)
class Result:
    """One text's answer, its seconds by step, and bytes and rounds of it alone."""

    line: Line
    answer: Answer
    steps: dict[str, float]
    cost: dict[str, float]

    @property
    def seconds(self) -> float:
        """All steps."""
        return sum(self.steps.values())


class Asking(Protocol):
    """What is asked: see `cli.ask.core.Question`."""

    @property
    def verb(self) -> str: ...
    @property
    def lines(self) -> Sequence[Line]: ...
    @property
    def file(self) -> Path | None: ...
    @property
    def others(self) -> tuple[str, ...]: ...
    @property
    def suits(self) -> Callable[[str, str], None]: ...
    def visible(self, answer: Answer) -> Answer: ...


def ask(question: Asking, how: Connection, json: Path | None) -> tuple[list[Result], bool, str]:
    """Connects, asks every text and shows what it cost: all answers, whether there is one for each line, and
    the model's name. Raises InputError for a model of another kind."""
    began = time.monotonic()
    session = RenewableSession(lambda: dialled(how), greeted)
    try:
        plan = session.plan
        require_kind(question.verb, plan, *question.others)
        question.suits(plan.name, "")
        good, spoiled = admitted(session.part.front, plan.tokens, question.lines, question.file)
        results = _classified(session, question, good, json, began)
        session.hang_up(politely=True)
        figures = _report(session, results, time.monotonic() - began)
    finally:
        session.close()
    with reporting(json, figures):
        out.print(f"session: {cost_line(party_cost(figures), figures['seconds'])}", soft_wrap=True)
        if how.profile:
            show_profile(figures["profile"])
    return results, not spoiled, plan.name


def dialled(how: Connection) -> Party:
    """A connection as the options say. Raises InputError, PeerError."""
    host, port = address(how.target)
    return dial(
        host,
        port,
        trust=how.trusted.certificate,
        fingerprint=how.trusted.fingerprint,
        name=how.trusted.name,
        identity=how.identity,
        insecure_plain=how.trusted.insecure_plain,
        timeout=how.timeout,
        threads=how.threads,
    )


def greeted(party: Party) -> TwoPartyClient:
    """The client of a connection, with the public part of the model, which it shows. Raises PeerError."""
    began = time.monotonic()
    with progress("public part of the model") as report:

        def loaded(done: int, total: int) -> None:
            spent = time.monotonic() - began
            report(Progress(size(done), done, total, spent, spent * (total - done) / done))

        client = TwoPartyClient(party, PublicCache(), loaded)
    plan = client.plan
    labels = ", ".join(plan.config.labels[:8]) or GIVES[kind_of(plan)]
    out.print(
        f"{shown(plan.name)}: {several(plan.config.layers, 'layer')} of width {plan.config.hidden}, "
        f"{plan.tokens} tokens, answers {shown(labels)}; plan {plan.hash[:12]}",
        soft_wrap=True,
    )
    out.print(f"expected: {expectation(plan)}", soft_wrap=True)
    return client


def _classified(
    session: RenewableSession, question: Asking, lines: Sequence[Line], json: Path | None, began: float
) -> list[Result]:
    """All answers. When the session breaks, those that came are written before the error goes on."""
    results: list[Result] = []
    try:
        for line in lines:
            found = _answered(session, line, len(lines), results)
            results.append(replace(found, answer=question.visible(found.answer)))
            _show(results[-1])
    except (TacitaError, KeyboardInterrupt):
        if results:
            figures = _report(session, results, time.monotonic() - began)
            write_report(json, {**figures, "unanswered": [line.number for line in lines[len(results) :]]})
        raise
    return results


def _answered(session: RenewableSession, line: Line, count: int, earlier: Sequence[Result]) -> Result:
    before = session.cost
    title = f"text {len(earlier) + 1} of {count}" if count > 1 else "classify"
    with watching(session.plan, title, earlier[-1].steps if earlier else {}) as watch:
        answer = session.classify(line.text, watch)
    cost = {name: value - before[name] for name, value in session.cost.items()}
    return Result(line, answer, watch.seconds, cost)


def _show(result: Result) -> None:
    answer = result.answer
    out.print(f"[bold]{said(answer)}[/bold]{brackets(answer)}  {text_of(result.line.text)}", soft_wrap=True)
    out.print(f"  {cost_line(result.cost, result.seconds)}", soft_wrap=True)
    for warning in answer.warnings:
        err.print(f"[yellow]warning:[/yellow] {shown(warning)}", soft_wrap=True)


def _report(session: RenewableSession, results: Sequence[Result], seconds: float) -> dict[str, Any]:
    plan = session.plan
    return {
        "scheme": "bumblebee",
        "model": plan.name,
        "tokens": plan.tokens,
        "plan_hash": plan.hash,
        "results": [_row(result) for result in results],
        "seconds": seconds,
        **session.cost,
        "peak_rss_gb": peak_memory_gb(),
        "profile": session.profile(),
    }


def _row(result: Result) -> dict[str, Any]:
    answer = result.answer
    return {
        "line": result.line.number,
        **answer.to_json(),
        "seconds": result.seconds,
        "steps": result.steps,
        **result.cost,
    }


def party_cost(figures: dict[str, Any]) -> dict[str, float]:
    """Bytes and rounds of a report."""
    return {name: figures[name] for name in ("bytes_sent", "bytes_received", "rounds")}
