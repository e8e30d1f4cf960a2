"""The two parties of a measured run: each a process pinned to a core, started, watched and ended together.

A party sends events through a pipe: where the server listens, which stage runs, and its report or why it
failed. What it prints to standard error goes to a log in the run's folder. The kernel ends it with this
process, so no party outlives an interrupted command.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.runs.two_party.cases.case import Array, Case
from bench.runs.two_party.cost import Cost, Reading, Run, difference, refills
from bench.runs.two_party.session import Options, Session
from tacita.errors import TacitaError
from tacita.resources import peak_memory_gb
from tacita.server.child import die_with_parent

ROLES = ("client", "server")
GRACE = 3.0  # seconds in which the other party may say why it failed
Watch = Callable[[str, str, float], None]  # (role, stage, share done)


@dataclass(frozen=True)
class At:
    """Where the server listens. certificate: its file, empty without TLS."""

    port: int
    certificate: str


@dataclass(frozen=True)
class Stage:
    """What a party is doing. done: share of it."""

    name: str
    done: float


@dataclass(frozen=True)
class Failed:
    """Why a party ended. at: on the machine's clock."""

    text: str
    hint: str
    at: float


@dataclass(frozen=True)
class Report:
    """What a party measured. seconds, cpu_seconds, reading: of the set-up. result: what it holds at the end.
    extra: the case's own."""

    seconds: float
    cpu_seconds: float
    reading: Reading
    run: Run
    parts: Mapping[str, Run]
    peak_gb: float
    result: Array
    extra: Mapping[str, Any]


@dataclass
class Child:
    """A running party and what it said. failed_at: 0 for one that ended without a word."""

    role: str
    process: SpawnProcess
    pipe: Connection
    log: Path
    report: Report | None = None
    failure: TacitaError | None = None
    failed_at: float = 0.0
    ended: bool = False

    @property
    def failed(self) -> bool:
        """Whether it will not report."""
        return self.failure is not None or (self.ended and self.report is None)

    def complaint(self) -> TacitaError:
        """Why it failed: its own words, or the end of its log."""
        if self.failure is not None:
            return self.failure
        self.process.join()
        lines = self.log.read_text(errors="replace").strip().splitlines() or ["no output"]
        text = f"{self.role}: ended with status {self.process.exitcode}: {lines[-1]}"
        return TacitaError(text, hint="run it again with one --case")


Children = Mapping[str, Child]


def run_pair(case: Case, options: Options, watch: Watch = lambda *_: None) -> dict[str, Report]:
    """Returns the reports by role. Raises TacitaError with the words of the party that failed first; both
    have ended then."""
    with _started(case, options) as children:
        while any(child.report is None for child in children.values()):
            _take_events(children, watch, None)
            if any(child.failed for child in children.values()):
                raise _first_failure(children, watch)
        for child in children.values():
            child.process.join(GRACE)
        return {role: child.report for role, child in children.items() if child.report is not None}


def cores(threads: int) -> list[int | None]:
    """Returns a core for each party; None (not pinned) with several threads, one core or no affinity."""
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [*mine[:2]] if threads == 1 and len(mine) >= 2 else [None, None]


@contextlib.contextmanager
def _started(case: Case, options: Options) -> Iterator[Children]:
    context, children = multiprocessing.get_context("spawn"), dict[str, Child]()
    try:
        for core, role in zip(cores(options.threads), ROLES, strict=True):
            ours, theirs = context.Pipe()
            log = Path(options.folder) / f"{role}.log"
            process = context.Process(target=_party, args=(case, role, options, theirs, log), daemon=True)
            with _passed_on(core, options.threads):
                process.start()
            theirs.close()
            children[role] = Child(role, process, ours, log)
        yield children
    finally:
        for child in children.values():
            child.process.kill()
            child.process.join()
            child.pipe.close()


@contextlib.contextmanager
def _passed_on(core: int | None, threads: int) -> Iterator[None]:
    """Sets what a process inherits from this thread before it imports anything: its core, its threads."""
    counts = dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    with patch.dict(os.environ, counts):
        if core is None:
            yield
            return
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        try:
            yield
        finally:
            os.sched_setaffinity(0, mine)


def _take_events(children: Children, watch: Watch, seconds: float | None) -> None:
    """Takes an event of each party that has one, after so many seconds at most."""
    speaking = {child.pipe: child for child in children.values() if not child.ended}
    for pipe in wait(list(speaking), seconds):
        child = speaking[pipe]  # type: ignore[index]
        try:
            event = child.pipe.recv()
        except (EOFError, ConnectionError):
            child.ended = True
            continue
        _take(children, child, event, watch)


def _take(children: Children, child: Child, event: At | Stage | Report | Failed, watch: Watch) -> None:
    match event:
        case At():
            with contextlib.suppress(BrokenPipeError):
                children["client"].pipe.send(event)
        case Stage(name, done):
            watch(child.role, name, done)
        case Report():
            child.report = event
        case Failed(text, hint, at):
            child.failure, child.failed_at = TacitaError(f"{child.role}: {text}", hint=hint), at


def _first_failure(children: Children, watch: Watch) -> TacitaError:
    """Returns the error of the party that failed first: the other's, that the line went dead, explains
    nothing."""
    until = time.monotonic() + GRACE
    while (left := until - time.monotonic()) > 0 and not all(child.ended for child in children.values()):
        _take_events(children, watch, left)
    failed = [child for child in children.values() if child.failed]
    return min(failed, key=lambda child: child.failed_at).complaint()


def _party(case: Case, role: str, options: Options, pipe: Connection, log: Path) -> None:
    """Runs one party, in a process of its own."""
    die_with_parent()
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)
    try:
        _measure(case, role, options, pipe)
    except TacitaError as error:
        pipe.send(Failed(str(error), error.hint, time.monotonic()))
        sys.exit(1)
    except Exception as error:  # the engine's among them: the parent shows a line, the log has the traceback
        pipe.send(Failed(f"{type(error).__name__}: {error}", "", time.monotonic()))
        raise


def _measure(case: Case, role: str, options: Options, pipe: Connection) -> None:
    def report(name: str, done: float) -> None:
        pipe.send(Stage(name, done))

    report("set-up", 0.0)
    clock = _Clock()
    session = _opened(case, role, options, pipe)
    session.set_up()
    clock.stop()  # making inputs is no part of the protocol
    prepared = case.prepare(session.party, options, report)
    _forget_peak()
    session.meet()
    report("warm-up", 0.0)
    clock.start()
    prepared.warm()
    session.meet()
    clock.stop()
    reading = session.read()
    report("run", 0.0)
    result, run = _timed(session, prepared.run)
    parts = dict[str, Run]()
    for name, part in prepared.parts.items():
        result, parts[name] = _timed(session, part)
    checked, peak = prepared.check(result), peak_gb()
    pipe.send(Report(clock.wall, clock.cpu, reading, run, parts, peak, checked, dict(prepared.report)))
    session.meet()
    session.close()


class _Clock:
    """Seconds and CPU seconds while it runs; runs at first."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.start()

    def start(self) -> None:
        self._began = time.monotonic(), time.process_time()

    def stop(self) -> None:
        self.wall += time.monotonic() - self._began[0]
        self.cpu += time.process_time() - self._began[1]


def _opened(case: Case, role: str, options: Options, pipe: Connection) -> Session:
    """The server tells where it listens; the client is told."""
    if role == "server":
        return case.listen(options, lambda port, certificate: pipe.send(At(port, certificate)))
    at: At = pipe.recv()
    return case.connect(options, at.port, at.certificate)


def _timed(session: Session, action: Callable[[], Array]) -> tuple[Array, Run]:
    session.meet()
    before, clock = session.read(), _Clock()
    result = action()
    clock.stop()
    after = session.read()
    sent, received, rounds = (
        getattr(after, name) - getattr(before, name) for name in ("sent", "received", "rounds")
    )
    operations = difference(after.operations, before.operations)
    run = Run(
        whole=Cost(clock.wall, clock.cpu, sent, received, rounds, 1),
        refilled=refills(operations),
        session=refills(after.operations),
        refill=after.made - before.made,
        made=after.made,
        used=after.used - before.used,
        operations=operations,
    )
    return result, run


def _forget_peak() -> None:
    """Sets the kernel's mark back to what is held now: calibrating and making inputs took more than the
    protocol holds."""
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_gb() -> float:
    """Returns the largest resident set of this process since its inputs were made (the kernel's VmHWM), in
    GB."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return peak_memory_gb()
