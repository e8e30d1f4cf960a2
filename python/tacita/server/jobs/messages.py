"""Messages between the service and a worker process, see `server.child`.

    to the worker:  Setup, once; then Evaluate, one at a time, and Stop for the one that runs
    from it:        for each Evaluate any number of Passed, then Done, Failed or Stopped

Nothing of a request passes, only the names of its files. Paths are whole; `folder`, `plan` and `root` of
Setup are as in `jobs.queue.WorkerSpec`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar

from tacita.progress import Progress
from tacita.server.child import STDERR, Message


@dataclass(frozen=True)
class Setup(Message):
    """What a worker is for. save_every: seconds between resume points, 0 for one after each stage."""

    tag: ClassVar[str] = "setup"
    model: str
    scheme: str
    folder: str
    plan: str
    root: str
    threads: int
    memory: float
    allow_insecure: bool
    sha256: str
    save_every: float


@dataclass(frozen=True)
class Evaluate(Message):
    """A job: request.ct of `folder`, under the keys of that id in the file `keys`."""

    tag: ClassVar[str] = "evaluate"
    id: str
    key_id: str
    keys: str
    folder: str


@dataclass(frozen=True)
class Stop(Message):
    """Ends this job before its next stage. Nothing happens when it has ended."""

    tag: ClassVar[str] = "stop"
    id: str


@dataclass(frozen=True)
class Passed(Message):
    """Says that the job goes on."""

    tag: ClassVar[str] = "passed"
    id: str
    progress: Progress


@dataclass(frozen=True)
class Done(Message):
    """Says that response.ct is there. seconds: reading keys included. resident: keys in memory now."""

    tag: ClassVar[str] = "done"
    id: str
    seconds: float
    figures: Mapping[str, float]
    resident: int


@dataclass(frozen=True)
class Failed(Message):
    """Says that the job has no response. code, detail, hint: see `jobs.queue.Watcher.failed`."""

    tag: ClassVar[str] = "failed"
    id: str
    code: str
    detail: str
    hint: str
    resident: int


@dataclass(frozen=True)
class Stopped(Message):
    """Says that the job was ended on order; a resume point stays, if there was one."""

    tag: ClassVar[str] = "stopped"
    id: str
    resident: int


Order = Setup | Evaluate | Stop
Reply = Passed | Done | Failed | Stopped


# The log of a worker: one JSON object a line on standard error, which names jobs and shows no
# contents.

FRAMES = 8  # of a defect: where it was, from the inside


class Log:
    """The log of a worker, whose lines name model, scheme and process."""

    def __init__(self, model: str, scheme: str) -> None:
        self._labels = {"model": model, "scheme": scheme, "worker": os.getpid()}

    def __call__(self, event: str, **fields: str | int | float) -> None:
        """Writes a line. fields: ids, counts, seconds. One write, so that lines of processes do not mix."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.write(STDERR, json.dumps({"at": now, **self._labels, "event": event, **fields}).encode() + b"\n")


def where(trace: TracebackType | None) -> str:
    """Returns the functions and lines where an error arose, innermost first, without any value."""
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}.{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " < ".join(places[: -FRAMES - 1 : -1])
