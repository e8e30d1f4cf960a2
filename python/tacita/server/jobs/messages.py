"""Messages between the service and a worker process, see `server.child`.

    to the worker:  WorkerSpec, once; then Evaluate, one at a time, and Stop for the one that runs
    from it:        for each Evaluate any number of Passed, then Done, Failed or Stopped

Nothing of a request passes, only the names of its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tacita.evaluate.session import SAVE_EVERY
from tacita.progress import Progress
from tacita.resources import CPU
from tacita.server.child import Message

REFUSED, DEADLINE, WORKER, RESOURCES, INTERNAL = "refused", "deadline", "worker", "resources", "internal"
STUCK = "stuck"


@dataclass(frozen=True)
class WorkerSpec(Message):
    """What a worker is for: a plan on ciphertexts of one model.

    folder: of the model, or a name that `checkpoint.load` knows. plan: the folder with plan.json and salt.
    root: the folder below which folders of jobs and texts and files of keys lie. threads: 0 for all cores.
    memory: GB, keys included. sha256: of the checkpoint, hex; a worker that loads another one does not start.
    save_every: seconds between resume points, 0 for one after each stage. device: what evaluates
    (`device_number`).
    """

    tag: ClassVar[str] = "setup"
    model: str
    scheme: str
    folder: Path
    plan: Path
    root: Path
    threads: int
    memory: float
    allow_insecure: bool
    sha256: str
    save_every: float = SAVE_EVERY
    device: str = CPU

    @property
    def name(self) -> tuple[str, str]:
        return self.model, self.scheme


@dataclass(frozen=True)
class Evaluate(Message):
    """A job: request.ct of `folder`, under the keys of that id in the file `keys`; both paths are absolute.
    response.ct is written there, spilled ciphertexts and resume points lie there. text: the folder of the
    rows of its text, under a plan that keeps them."""

    tag: ClassVar[str] = "evaluate"
    id: str
    key_id: str
    keys: Path
    folder: Path
    text: Path | None = None


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
    """Says that response.ct is there. seconds: since the job was started last, reading keys included.
    figures: see `evaluator.JobEvaluator`. resident: keys in memory now."""

    tag: ClassVar[str] = "done"
    id: str
    seconds: float
    figures: Mapping[str, float]
    resident: int


@dataclass(frozen=True)
class Failed(Message):
    """Says that the job has no response and will have none. code: REFUSED for the client's fault, DEADLINE,
    WORKER for processes that ended under it, STUCK for one that got no further, RESOURCES for want of memory
    or disk, INTERNAL for a defect, named by its type alone."""

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


Order = WorkerSpec | Evaluate | Stop
Reply = Passed | Done | Failed | Stopped
