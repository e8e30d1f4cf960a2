"""What `serve` and `classify --connect` share: options of the connection, progress by step, what a session
cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.table import Table

from tacita.cli.ask.columns import Line, admitted
from tacita.cli.asked import brackets, said, text_of
from tacita.cli.console import duration, err, out, progress, reporting, several, shown, size, write_report
from tacita.cli.options import option
from tacita.client.public_cache import PublicCache
from tacita.client.renewable import RenewableSession
from tacita.errors import InputError, TacitaError
from tacita.plans.answers import Answer
from tacita.plans.commitment import LINKS
from tacita.progress import Progress
from tacita.resources import peak_memory_gb
from tacita.texts.task import GIVES, NEXT, kind_of, require_kind
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.plan.correlations import failure_log2, in_words
from tacita.two_party.plan.cost import SET_UP
from tacita.two_party.plan.plan import TwoPartyPlan, counted
from tacita.two_party.plan.writing_cost import Writing
from tacita.two_party.protocol.party import Identity, Party, dial

Certificate = Annotated[
    Path | None,
    option("--certificate", help="PEM file of this side's certificate."),
]
Key = Annotated[Path | None, option("--key", help="PEM file of the certificate's private key.")]
Plain = Annotated[
    bool,
    option("--insecure-plain-tcp", help="No TLS: anyone on the way can read and change messages."),
]
Timeout = Annotated[
    float, typer.Option("--timeout", help="Seconds of silence after which the other side is given up.")
]
Profile = Annotated[bool, option("--profile", help="Show time, bytes and rounds of each operation.")]

TIMEOUT_DEFAULT = 120.0
DEPTH = 2  # path components of an operation that --profile shows


def identity_of(certificate: Path | None, key: Path | None) -> Identity | None:
    """Both files or neither. Raises InputError."""
    if (certificate is None) != (key is None):
        raise InputError("--certificate and --key go together", hint="give both files, or neither")
    return Identity(certificate, key) if certificate and key else None


def address(text: str, option: str = "--connect", least: int = 1) -> tuple[str, int]:
    """HOST:PORT, also [::1]:PORT. least: 0 where any free port may be meant. Raises InputError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not least <= int(port) < 1 << 16:
        raise InputError(f"{option} {text}: not HOST:PORT", hint="for example 127.0.0.1:7007")
    return host.removeprefix("[").removesuffix("]"), int(port)


def steps(plan: TwoPartyPlan) -> list[str]:
    """The steps of one text, or of a prompt, in the order in which they are told."""
    last = ["choose"] if plan.task == NEXT else []
    return ["set-up", *dict.fromkeys(counted(plan).nodes), *last]


@dataclass
class Stopwatch:
    """A watcher that keeps the seconds of each step. report: where progress goes. expected: seconds of an
    earlier text."""

    plan: TwoPartyPlan
    report: Callable[[Progress], None]
    expected: Mapping[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _step: str = ""

    @cached_property
    def names(self) -> list[str]:
        """All steps: counted once, not at every step."""
        return steps(self.plan)

    def __call__(self, step: str) -> None:
        """A step begins."""
        self.stop()
        self._step, self._began = step, time.monotonic()
        names = self.names
        index = names.index(step) if step in names else 0
        spent = sum(self.seconds.values())
        self.report(Progress(step, index, len(names), spent, self._left(names[index:], spent, index)))

    def stop(self) -> None:
        """The last step is over."""
        if self._step:
            self.seconds[self._step] = self.seconds.get(self._step, 0.0) + time.monotonic() - self._began
        self._step = ""

    def _left(self, names: Sequence[str], spent: float, index: int) -> float:
        """By an earlier text where there was one, else as if all steps were alike."""
        if self.expected:
            return sum(self.expected.get(name, 0.0) for name in names)
        return spent / index * len(names) if index else 0.0


@contextmanager
def watching(plan: TwoPartyPlan, title: str, expected: Mapping[str, float]) -> Iterator[Stopwatch]:
    """A stopwatch with a progress bar."""
    with progress(title) as report:
        watch = Stopwatch(plan, report, expected)
        yield watch
        watch.stop()


def writing_expectation(plan: TwoPartyPlan, prompt: int, temperature: float = 0.0, top_k: int = 0) -> str:
    """What a text that is written will take, in words. prompt: its tokens with their padding. temperature,
    top_k: of what is drawn, as asked for."""
    writing = Writing.of(plan, prompt, temperature, top_k)
    seconds = [
        f"{first:.1f} s and {then:.2f} s on {where}"
        for where, (first, then) in (
            ("one machine", writing.seconds()),
            *((name, writing.seconds(speed)) for name, speed in LINKS.items()),
        )
    ]
    first, then = writing.bytes()
    sent = f"{size(first)} for a prompt of {prompt} tokens, {size(then)} for a token behind it"
    return f"{sent}, and {size(SET_UP)} once to set up; {'; '.join(seconds)}"


def expectation(plan: TwoPartyPlan) -> str:
    """What a text will send, in words; of one that is written, with a prompt of half the plan's tokens."""
    if plan.task == NEXT:
        return writing_expectation(plan, max(1, plan.tokens // 2))
    text, once = size(plan.predicted_bytes()), size(SET_UP)
    sent = f"about {text} a text in both directions, and {once} once to set up"
    return f"{sent}; wrong by chance {in_words(failure_log2(counted(plan).responses))}"


def show_profile(rows: Sequence[Mapping[str, Any]]) -> None:
    """One line an operation; inner ones are part of the outer."""
    table = Table("operation", "calls", "seconds", "CPU seconds", "sent", "received", "rounds")
    for row in rows:
        depth = row["path"].count("/")
        if depth < DEPTH:
            name = "  " * depth + row["path"].rpartition("/")[2]
            cells = f"{row['wall']:.2f}", f"{row['cpu']:.2f}", size(row["sent"]), size(row["received"])
            table.add_row(name, str(row["calls"]), *cells, str(row["rounds"]))
    out.print(table)


def cost_line(cost: Mapping[str, float], seconds: float) -> str:
    """Time, bytes, and rounds where they are known, in words."""
    sent, received = cost["bytes_sent"], cost["bytes_received"]
    rounds = f", {cost['rounds']:.0f} rounds" if "rounds" in cost else ""
    return (
        f"{duration(seconds)}, {size(sent + received)} ({size(sent)} sent, {size(received)} received){rounds}"
    )


# `tacita classify --connect` and its like: texts answered together with a server that does not see them.


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
