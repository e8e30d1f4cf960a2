"""What the service and a worker process say to each other: one JSON object a line, capped, typed in every
field.

    to the worker:  Setup, once; then Evaluate, one at a time, and Stop for the one that runs
    from it:        Ready or Unable; for each Evaluate any number of Passed, then Done, Failed or Stopped

Nothing of a request passes, only the names of its files. Paths are whole; `folder`, `plan` and `root` of
Setup are as in `dispatch.base.Lane`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacita.errors import PeerError
from tacita.plans.typed_json import from_json, to_json
from tacita.protocol.lines import TOLD_BYTES, parsed
from tacita.run.progress import Progress

ORDER_BYTES = 1 << 16  # of a line to a worker: five paths
MOST_BYTES = TOLD_BYTES  # of a line from it: the seconds of all stages
MOST_TEXT = 2000  # characters of an error


@dataclass(frozen=True)
class Setup:
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
class Evaluate:
    """A job: request.ct of `folder`, under the keys of that id in the file `keys`."""

    tag: ClassVar[str] = "evaluate"
    id: str
    key_id: str
    keys: str
    folder: str


@dataclass(frozen=True)
class Stop:
    """End this job before its next stage. Nothing happens when it has ended."""

    tag: ClassVar[str] = "stop"
    id: str


@dataclass(frozen=True)
class Ready:
    """The model is loaded. seconds: that this took."""

    tag: ClassVar[str] = "ready"
    seconds: float


@dataclass(frozen=True)
class Unable:
    """It cannot be; the process ends. error, hint: for the operator."""

    tag: ClassVar[str] = "unable"
    error: str
    hint: str


@dataclass(frozen=True)
class Passed:
    """The job goes on."""

    tag: ClassVar[str] = "passed"
    id: str
    progress: Progress


@dataclass(frozen=True)
class Done:
    """response.ct is there. seconds: of the job, reading keys included. resident: keys in memory now."""

    tag: ClassVar[str] = "done"
    id: str
    seconds: float
    figures: Mapping[str, float]
    resident: int


@dataclass(frozen=True)
class Failed:
    """code, detail, hint: as `dispatch.base.Watcher.failed` tells them."""

    tag: ClassVar[str] = "failed"
    id: str
    code: str
    detail: str
    hint: str
    resident: int


@dataclass(frozen=True)
class Stopped:
    """As it was told to; a resume point stays, if there was one."""

    tag: ClassVar[str] = "stopped"
    id: str
    resident: int


Order = Setup | Evaluate | Stop
Told = Ready | Unable | Passed | Done | Failed | Stopped


def line(message: Order | Told) -> bytes:
    """With its end."""
    return json.dumps(to_json(message)).encode() + b"\n"


def order(text: bytes) -> Order:
    """A line without its end. Raises PeerError for what `line` would not have written of an order."""
    return _read(Order, parsed(text, ORDER_BYTES))  # type: ignore[no-any-return]


def told(text: bytes) -> Told:
    """The same of what a worker says."""
    return _read(Told, parsed(text, MOST_BYTES))  # type: ignore[no-any-return]


def _read(kinds: Any, data: dict[str, Any]) -> Any:
    try:
        return from_json(kinds, data)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise PeerError(
            f"a line between service and worker is no message ({error!s:.200})", hint="use one release"
        ) from error
