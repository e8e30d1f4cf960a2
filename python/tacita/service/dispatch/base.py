"""What is evaluated where, and what the service hears of it: between the service's core and its worker
processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tacita.run.progress import Progress

REFUSED, DEADLINE, WORKER, RESOURCES, INTERNAL = "refused", "deadline", "worker", "resources", "internal"


@dataclass(frozen=True)
class Lane:
    """One worker process: a plan on ciphertexts of one model.

    folder: of the model, or a name that `checkpoint.load` knows. plan: the folder with plan.json and salt.
    root: the folder below which jobs' folders and files of keys lie. threads: 0 for all cores. memory: GB,
    keys included. sha256: of the checkpoint, hex; a worker that loads another one does not start.
    """

    model: str
    scheme: str
    folder: Path
    plan: Path
    root: Path
    threads: int
    memory: float
    allow_insecure: bool
    sha256: str

    @property
    def name(self) -> tuple[str, str]:
        """By which jobs say where they belong."""
        return self.model, self.scheme


@dataclass(frozen=True)
class Job:
    """A request that was accepted. id: of its own. client: whose turn it takes, and whose share of the queue.

    key_id: of the keys that the request must have been made with; keys: their file, complete and checked.
    folder: with request.ct; response.ct is written there, spilled ciphertexts and resume points lie there.
    deadline: unix seconds, after which it fails.
    """

    id: str
    client: str
    model: str
    scheme: str
    key_id: str
    keys: Path
    folder: Path
    deadline: float | None = None

    @property
    def lane(self) -> tuple[str, str]:
        """The name of the lane that it waits in."""
        return self.model, self.scheme


class Watcher(Protocol):
    """Who is told how jobs go, in the event loop's thread. Each job ends with one of `finished` and `failed`,
    or was cancelled or left behind by `drain`, which its caller knows."""

    def started(self, id: str) -> None:
        """A worker has it; again after `requeued`."""

    def progressed(self, id: str, progress: Progress) -> None:
        """Before each stage, and at the end."""

    def finished(self, id: str, seconds: float, figures: Mapping[str, float]) -> None:
        """response.ct is there. seconds: since it was started last; figures: see `workers.figures`."""

    def failed(self, id: str, code: str, detail: str, hint: str) -> None:
        """code: REFUSED for the client's fault, DEADLINE, WORKER for processes that ended under it,
        RESOURCES for want of memory or disk, INTERNAL for a defect, named by its type alone."""

    def requeued(self, id: str) -> None:
        """Its worker ended. It waits again, is its client's next, and will go on from its resume point."""
