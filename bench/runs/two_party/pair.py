"""Two parties as two processes on this machine: started, watched, ended together."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.runs.two_party.child import BOOTSTRAP, Order
from tacita.errors import TacitaError

ROLES = ("client", "server")
GRACE = 3.0  # seconds in which the other party may say why it failed

Event = dict[str, Any]
Watch = Callable[[str, str, float], None]  # (role, stage, share done)


@dataclass
class Child:
    """A running party and what it said."""

    role: str
    process: subprocess.Popen[str]
    log: Path
    result: dict[str, Any] | None = None
    failure: TacitaError | None = None
    failed_at: float = 0.0
    ended: bool = False

    def tell(self, message: dict[str, Any]) -> None:
        """One line to its standard input."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Waits for its end, and closes the pipes."""
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def complaint(self) -> TacitaError:
        """Why it failed: its own words, or the end of its log."""
        if self.failure is not None:
            return self.failure
        lines = self.log.read_text(errors="replace").strip().splitlines() or ["no output"]
        status = self.process.poll()
        return TacitaError(
            f"{self.role}: ended with status {status}: {lines[-1]}", hint="run it again with one --case"
        )


@dataclass
class Pair:
    """Both parties of one run."""

    children: dict[str, Child] = field(default_factory=dict)
    readers: list[threading.Thread] = field(default_factory=list)
    events: queue.Queue[tuple[str, Event]] = field(default_factory=queue.Queue)


def run_pair(orders: dict[str, Order], watch: Watch = lambda *_: None) -> dict[str, dict[str, Any]]:
    """Results by role. Raises TacitaError with the words of the party that failed first; both have ended
    then."""
    with _started(orders) as pair:
        while any(child.result is None for child in pair.children.values()):
            _take(pair, *pair.events.get(), watch)
            if any(
                child.failure or (child.ended and child.result is None) for child in pair.children.values()
            ):
                raise _blame(pair, watch)
        for child in pair.children.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(timeout=GRACE)
        return {role: child.result or {} for role, child in pair.children.items()}


def cores(count: int) -> list[int]:
    """A core for each party; -1 (not pinned) with several threads, or where there is only one core or no
    affinity."""
    if count != 1 or not hasattr(os, "sched_getaffinity"):
        return [-1, -1]
    mine = sorted(os.sched_getaffinity(0))
    return mine[:2] if len(mine) >= 2 else [-1, -1]


@contextlib.contextmanager
def _started(orders: dict[str, Order]) -> Iterator[Pair]:
    pair = Pair()
    try:
        for core, role in zip(cores(orders["client"].options.threads), ROLES, strict=True):
            child = _start(orders[role], core)
            pair.children[role] = child
            pair.readers.append(
                reader := threading.Thread(target=_read, args=(child, pair.events), daemon=True)
            )
            reader.start()
        yield pair
    finally:
        for child in pair.children.values():
            child.process.kill()
        for reader in pair.readers:
            reader.join()
        for child in pair.children.values():
            child.end()


def _start(order: Order, core: int) -> Child:
    log = Path(order.options.folder) / f"{order.role}.log"
    threads = dict.fromkeys(
        ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(order.options.threads)
    )
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", BOOTSTRAP, str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
    child = Child(order.role, process, log)
    child.tell(json.loads(order.as_json()))
    return child


def _read(child: Child, events: queue.Queue[tuple[str, Event]]) -> None:
    assert child.process.stdout is not None
    for line in child.process.stdout:
        with contextlib.suppress(json.JSONDecodeError):
            events.put((child.role, json.loads(line)))
    child.process.wait()
    events.put((child.role, {"event": "ended"}))


def _take(pair: Pair, role: str, event: Event, watch: Watch) -> None:
    child = pair.children[role]
    match event["event"]:
        case "at":
            pair.children["client"].tell({"port": event["port"], "certificate": event["certificate"]})
        case "stage":
            watch(role, event["name"], event["done"])
        case "done":
            child.result = event["result"]
        case "failed":
            child.failure = TacitaError(f"{role}: {event['text']}", hint=event["hint"])
            child.failed_at = event["at"]
        case "ended":
            child.ended = True
        case unknown:
            raise TacitaError(f"{role}: unknown event {unknown!r}", hint="a defect: report it")


def _blame(pair: Pair, watch: Watch) -> TacitaError:
    """The error of the party that failed first: the other's, that the line went dead, explains nothing.

    A party that ended without a word failed at time zero. Both clocks are the machine's.
    """
    until = time.monotonic() + GRACE
    while (left := until - time.monotonic()) > 0 and not all(child.ended for child in pair.children.values()):
        with contextlib.suppress(queue.Empty):
            _take(pair, *pair.events.get(timeout=left), watch)
    failed = [c for c in pair.children.values() if c.failure or (c.ended and c.result is None)]
    return min(failed, key=lambda child: child.failed_at).complaint()
