"""What `serve` and `classify --connect` share: options of the connection, progress by step, what a session
cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacita.cli.console import duration, out, progress, size
from tacita.cli.options import option
from tacita.errors import InputError
from tacita.plans.link import LINKS
from tacita.plans.two_party.cost import SET_UP
from tacita.plans.two_party.failure import failure_log2, in_words
from tacita.plans.two_party.plan import TwoPartyPlan, counted
from tacita.plans.two_party.writing_cost import Writing
from tacita.protocol.party import Identity
from tacita.run.progress import Progress
from tacita.tasks.task import NEXT

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
