"""Asks a two-party server by its port: progress by step, what a text sends, and what a session cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.table import Table

from tacita.cli.console import duration, out, progress, say, several, shown, size
from tacita.client.connected import RenewableSession
from tacita.client.store import PublicCache
from tacita.errors import InputError
from tacita.plans.commitment import LINKS, link_of
from tacita.progress import Progress
from tacita.settings import Settings
from tacita.texts.task import GIVES, NEXT, kind_of
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.plan.correlations import in_words
from tacita.two_party.plan.generation_cost import GenerationCost
from tacita.two_party.program.cost import SET_UP, failure_log2
from tacita.two_party.program.program import Program
from tacita.two_party.protocol.party import Identity, Party, dial

DEPTH = 2  # path components of an operation that profile shows


def identity_of(certificate: Path | None, key: Path | None) -> Identity | None:
    """Returns the identity of both files, None without them. Raises InputError for one of the two."""
    if (certificate is None) != (key is None):
        raise InputError("--certificate and --key go together", hint="give both files, or neither")
    return Identity(certificate, key) if certificate and key else None


def address(text: str, option: str = "--connect", least: int = 1) -> tuple[str, int]:
    """Parses HOST:PORT, also [::1]:PORT. least: 0 where any free port may be meant. Raises InputError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not least <= int(port) < 1 << 16:
        raise InputError(f"{option} {text}: not HOST:PORT", hint="for example 127.0.0.1:7007")
    return host.removeprefix("[").removesuffix("]"), int(port)


def steps(plan: Program) -> list[str]:
    """Returns the steps of one text, or of a prompt, in the order in which they begin."""
    last = ["choose"] if plan.task == NEXT else []
    return ["set-up", *dict.fromkeys(plan.cost().nodes), *last]


@dataclass
class Stopwatch:
    """A watcher that keeps the seconds of each step. report: where progress goes. expected: seconds of an
    earlier text."""

    plan: Program
    report: Callable[[Progress], None]
    expected: Mapping[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _step: str = ""

    @cached_property
    def names(self) -> list[str]:
        """The names of all steps, counted once."""
        return steps(self.plan)

    def __call__(self, step: str) -> None:
        """Ends the last step and begins this one."""
        self.stop()
        self._step, self._began = step, time.monotonic()
        names = self.names
        index = names.index(step) if step in names else 0
        spent = sum(self.seconds.values())
        self.report(Progress(step, index, len(names), spent, self._seconds_left(names[index:], spent, index)))

    def stop(self) -> None:
        if self._step:
            self.seconds[self._step] = self.seconds.get(self._step, 0.0) + time.monotonic() - self._began
        self._step = ""

    def _seconds_left(self, names: Sequence[str], spent: float, index: int) -> float:
        """Estimates the seconds left by an earlier text if there was one, else as if all steps were alike."""
        if self.expected:
            return sum(self.expected.get(name, 0.0) for name in names)
        return spent / index * len(names) if index else 0.0


@contextmanager
def watching(plan: Program, title: str, expected: Mapping[str, float]) -> Iterator[Stopwatch]:
    """Yields a stopwatch with a progress bar."""
    with progress(title) as report:
        watch = Stopwatch(plan, report, expected)
        yield watch
        watch.stop()


def writing_expectation(
    plan: Program, prompt: int, temperature: float = 0.0, top_k: int = 0, *, pace: float = 1.0
) -> str:
    """Describes what a generated text will take. prompt: its tokens with their padding. temperature, top_k:
    of the draw. pace: see `cost.seconds`."""
    writing = GenerationCost.of(plan, prompt, temperature, top_k)
    seconds = [
        f"{first:.1f} s and {then:.2f} s on {where}"
        for where, (first, then) in (
            ("one machine", writing.seconds(pace=pace)),
            *((name, writing.seconds(speed, pace)) for name, speed in LINKS.items()),
        )
    ]
    first, then = writing.bytes()
    sent = f"{size(first)} for a prompt of {prompt} tokens, {size(then)} for a token behind it"
    return f"{sent}, and {size(SET_UP)} once to set up; {'; '.join(seconds)}"


def expectation(plan: Program, pace: float = 1.0) -> str:
    """Describes what a text will send; for a generated one, with a prompt of half the plan's tokens. pace:
    see `cost.seconds`."""
    if plan.task == NEXT:
        return writing_expectation(plan, max(1, plan.tokens // 2), pace=pace)
    text, once = size(plan.predicted_bytes()), size(SET_UP)
    sent = f"about {text} a text in both directions, and {once} once to set up"
    return f"{sent}; wrong by chance {in_words(failure_log2(plan.cost().responses))}"


def show_profile(rows: Sequence[Mapping[str, Any]]) -> None:
    """Shows one line an operation; inner ones are part of the outer."""
    table = Table("operation", "calls", "seconds", "CPU seconds", "sent", "received", "rounds")
    for row in rows:
        depth = row["path"].count("/")
        if depth < DEPTH:
            name = "  " * depth + row["path"].rpartition("/")[2]
            cells = f"{row['wall']:.2f}", f"{row['cpu']:.2f}", size(row["sent"]), size(row["received"])
            table.add_row(name, str(row["calls"]), *cells, str(row["rounds"]))
    out.print(table)


def cost_line(cost: Mapping[str, float], seconds: float) -> str:
    """Writes time, bytes, and rounds where they are known."""
    sent, received = cost["bytes_sent"], cost["bytes_received"]
    rounds = f", {cost['rounds']:.0f} rounds" if "rounds" in cost else ""
    return (
        f"{duration(seconds)}, {size(sent + received)} ({size(sent)} sent, {size(received)} received){rounds}"
    )


def prepare_ahead(session: RenewableSession, texts: int) -> dict[str, float]:
    """Prepares for so many texts to come, and returns what that took: seconds, bytes and rounds, and for how
    many texts; nothing for none. Raises PeerError, RefusedError."""
    began, before = time.monotonic(), session.cost
    if not texts:
        return {}
    with watching(session.plan, "prepare", {}) as watch:
        ready = session.prepare(texts, watch)
    cost = {name: value - before[name] for name, value in session.cost.items()}
    return {"texts": ready, "seconds": time.monotonic() - began, **cost}


def dial_server(settings: Settings) -> Party:
    """Connects as the settings say. Raises InputError, also for half an identity, PeerError."""
    network = settings.network
    host, port = address(network.connect or "")
    return dial(
        host,
        port,
        trust=network.trust,
        fingerprint=network.fingerprint,
        name=network.name,
        identity=identity_of(network.certificate, network.key),
        insecure_plain=network.insecure_plain_tcp,
        timeout=network.timeout,
        threads=settings.run.threads,
    )


def open_client(party: Party, link: str | None = None) -> TwoPartyClient:
    """Shakes hands over a connection and shows the server's model. Returns the client. link: as `link_of`
    reads it, by default as measured. Raises PeerError."""
    began = time.monotonic()
    with progress("public part of the model") as report:

        def loaded(done: int, total: int) -> None:
            spent = time.monotonic() - began
            report(Progress(size(done), done, total, spent, spent * (total - done) / done))

        client = TwoPartyClient(party, PublicCache(), loaded)
        client.adapt(link_of(link) if link else None)
    plan = client.plan
    labels = ", ".join(plan.labels[:8]) or GIVES[kind_of(plan)]
    say(
        f"{shown(plan.name)}: {several(plan.layers, 'layer')} of width {plan.hidden}, "
        f"{plan.tokens} tokens, answers {shown(labels)}; plan {plan.hash[:12]}"
    )
    say(f"expected: {expectation(plan)}")
    return client
