"""One party of a measured run, in a process of its own: reads an order from standard input, writes events to
standard output.

Started by `pair.py` with `BOOTSTRAP`, which pins the process to its core before anything else is imported.
Standard input stays open as long as the parent lives; its end is this process's end, so no party outlives an
interrupted command.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bench.runs.two_party.cases.case import Case, Options
from bench.runs.two_party.cost import Cost, Costs, Run, difference, refills
from tacita.errors import TacitaError

BOOTSTRAP = (
    "import os, sys\n"
    "core = int(sys.argv[1])\n"
    "if core >= 0: os.sched_setaffinity(0, {core})\n"
    "from bench.runs.two_party.child import main\n"
    "sys.exit(main())\n"
)
FAILED, ORPHANED = 1, 3


@dataclass(frozen=True)
class Order:
    """What a party is told. world: a module with CASES, listen and connect."""

    world: str
    case: str
    role: str
    link: str
    tls: bool
    options: Options
    timeout: float = 600.0

    @property
    def client(self) -> bool:
        """Whether this is the client's side."""
        return self.role == "client"

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def from_json(line: str) -> Order:
        """Inverse of `as_json`."""
        fields = json.loads(line)
        options = fields["options"]
        paths = {name: Path(options[name]) for name in ("model", "data") if options[name]}
        return Order(**fields | {"options": Options(**options | paths)})


@dataclass(frozen=True)
class Reading:
    """Counters of a session: the whole of it, by operation, and correlated transfers made and used."""

    sent: int
    received: int
    rounds: int
    made: int
    used: int
    operations: Costs


class Session(Protocol):
    """A connected party, as the child needs it; cases get `party`, the engine's object."""

    party: Any

    def set_up(self) -> None:
        """Base transfers and keys."""

    def meet(self) -> None:
        """Returns when the peer is here too."""

    def read(self) -> Reading:
        """The counters."""

    def close(self) -> None:
        """Ends the connection."""


def main() -> int:
    """Runs the order and returns the exit status."""
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen_to_parent, args=(lines,), daemon=True).start()
    try:
        _work(Order.from_json(lines.get()), lines)
    except TacitaError as error:
        say("failed", text=str(error), hint=error.hint, at=time.monotonic())
        return FAILED
    except (
        Exception
    ) as error:  # the engine's errors among them: the parent shows one line, the log keeps the traceback
        say("failed", text=f"{type(error).__name__}: {error}", hint="", at=time.monotonic())
        raise
    return 0


def say(event: str, **fields: Any) -> None:
    """One event for the parent."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def _listen_to_parent(lines: queue.Queue[str]) -> None:
    """Reads the descriptor itself: a thread that waits inside sys.stdin would hold its lock when the process
    ends."""
    held = b""
    while piece := os.read(0, 1 << 16):
        *whole, held = (held + piece).split(b"\n")
        for line in whole:
            lines.put(line.decode())
    os._exit(ORPHANED)


def _work(order: Order, lines: queue.Queue[str]) -> None:
    world = importlib.import_module(order.world)
    case: Case = world.CASES[order.case]
    say("stage", name="set-up", done=0.0)
    clock = _Clock()
    session = _opened(world, order, lines)
    session.set_up()
    clock.stop()  # making inputs is no part of the protocol
    prepared = case.prepare(
        session.party, order.options, lambda name, done: say("stage", name=name, done=done)
    )
    _forget_peak()
    session.meet()
    say("stage", name="warm-up", done=0.0)
    clock.start()
    prepared.warm()
    session.meet()
    clock.stop()
    setup = {"seconds": clock.wall, "cpu_seconds": clock.cpu, "reading": session.read()}
    say("stage", name="run", done=0.0)
    result, run = _measured(session, prepared.run)
    np.save(Path(order.options.folder) / f"{order.role}.npy", prepared.check(result))
    say("done", result=_report(setup, run) | {"extra": dict(prepared.report)})
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


def _opened(world: Any, order: Order, lines: queue.Queue[str]) -> Session:
    """The server tells where it listens; the client is told."""
    if not order.client:
        server: Session = world.listen(
            order, lambda port, certificate: say("at", port=port, certificate=certificate)
        )
        return server
    at = json.loads(lines.get())
    client: Session = world.connect(order, at["port"], at["certificate"])
    return client


def _measured(session: Session, action: Any) -> tuple[Any, Run]:
    session.meet()
    before, began, cpu = session.read(), time.monotonic(), time.process_time()
    result = action()
    wall, spent = time.monotonic() - began, time.process_time() - cpu
    after = session.read()
    whole = Cost(
        wall=wall,
        cpu=spent,
        sent=after.sent - before.sent,
        received=after.received - before.received,
        rounds=after.rounds - before.rounds,
        calls=1,
    )
    operations = difference(after.operations, before.operations)
    run = Run(
        whole=whole,
        refilled=refills(operations),
        session=refills(after.operations),
        refill=after.made - before.made,
        made=after.made,
        used=after.used - before.used,
        operations=operations,
    )
    return result, run


def _report(setup: Mapping[str, Any], run: Run) -> dict[str, Any]:
    reading: Reading = setup["reading"]
    return {
        "setup": {
            "seconds": setup["seconds"],
            "cpu_seconds": setup["cpu_seconds"],
            "sent": reading.sent,
            "received": reading.received,
        },
        "run": run.as_dict(),
        "peak_rss_gb": peak_gb(),
    }


def _forget_peak() -> None:
    """Sets the kernel's mark back to what is held now: calibrating and making inputs took more than the
    protocol holds."""
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_gb() -> float:
    """Largest resident set of this process since its inputs were made (the kernel's VmHWM), in GB."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        from tacita.resources import peak_memory_gb

        return peak_memory_gb()
