"""A service's evaluator on a node: jobs of one plan, under keys of many clients, which stay in memory.

It is an ordinary object, which Ray makes there, and `forward` calls. What passes is bytes, texts and numbers;
what a worker on the service's own machine would say, it says in the same lines.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np

from tacita.errors import TacitaError
from tacita.plans.files import Workdir
from tacita.progress import Progress
from tacita.server.child import encode
from tacita.server.machines.evaluator import (
    Bytes,
    Failed,
    Held,
    Kit,
    own_folder,
    release_refused,
    standing_of,
    write_piece,
)
from tacita.server.workers.evaluator import EndedError, JobEvaluator, Keys
from tacita.server.workers.messages import Done, Evaluate, Log, Passed

WAITING = 10.0  # seconds after which `passed` returns with nothing
JOB = "job"  # the folder of the one job


class Node:
    """A service's evaluator. After `prepare`, all but `passed` and `stop` are called one by one."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._evaluator: JobEvaluator | None = None
        self._held: Held | None = None
        self._running, self._over, self._stopped = "", False, ""
        self._said, self._changed = list[bytes](), threading.Condition()

    def prepare(self, kit: Kit, weights: Bytes, scheme: str) -> Failed | None:
        """Builds the circuit."""
        if refused := release_refused(kit):
            return refused
        try:
            self._held = own_folder(Path(kit.folder or tempfile.gettempdir()))
            standing = standing_of(kit, weights, self._held.path, self._cores)
        except TacitaError as error:
            self.close()
            return Failed(str(error), error.hint)
        keys = Keys(standing.ring, source=lambda path: path.name, read=Path.unlink)
        self._evaluator = JobEvaluator(standing, keys, Log(kit.name, scheme))
        return None

    def holds(self, key_id: str, mark: str) -> bool:
        """Returns whether a client's keys are in memory. mark: of the file that they must be from."""
        return self._ready.keys.holds(key_id, mark)

    def take(self, mark: str, begin: int, piece: Bytes) -> str:
        """Writes a piece of a file of keys, from this byte on. Returns why it cannot be kept, or nothing."""
        try:
            write_piece(self._path(mark), begin, piece)
        except OSError as error:
            return str(error.strerror)
        return ""

    def evaluate(self, id: str, key_id: str, mark: str, request: Bytes) -> tuple[bytes, Bytes | None]:
        """Returns (the worker's last message about the job, response). Cost: an evaluation; the first under
        these keys reads them, too."""
        folder = Workdir(self._path(JOB))
        shutil.rmtree(folder.path, ignore_errors=True)  # of a job that was broken off
        try:
            folder.path.mkdir()
            request.tofile(folder.request)
            self._begin(id)
            job = Evaluate(id, key_id, str(self._path(mark)), str(folder.path))
            answer = self._ready.answer(job, self._report)
            response = np.fromfile(folder.response, np.uint8) if isinstance(answer, Done) else None
            return encode(answer), response
        finally:
            self._end()
            self._path(mark).unlink(missing_ok=True)
            shutil.rmtree(folder.path, ignore_errors=True)

    def passed(self, id: str, seen: int) -> list[bytes]:
        """Returns the stages of a job, as lines, after those that were seen: returns when there are any, when
        the job is over, or after WAITING seconds."""

        def news() -> bool:
            return self._running == id and (self._over or len(self._said) > seen)

        with self._changed:
            return self._said[seen:] if self._changed.wait_for(news, WAITING) else []

    def stop(self, id: str) -> None:
        """Ends the job before its next stage."""
        self._stopped = id

    def close(self) -> None:
        """Removes its folder."""
        if self._held is not None:
            self._held.close()
            self._held = None

    @property
    def _ready(self) -> JobEvaluator:
        assert self._evaluator is not None  # who calls waits for `prepare`
        return self._evaluator

    def _path(self, name: str) -> Path:
        assert self._held is not None  # who calls waits for `prepare`
        return self._held.path / name

    def _begin(self, id: str) -> None:
        with self._changed:
            self._running, self._over, self._stopped, self._said = id, False, "", []

    def _end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _report(self, now: Progress) -> None:
        if self._stopped == self._running:
            raise EndedError
        with self._changed:
            self._said.append(encode(Passed(self._running, now)))
            self._changed.notify_all()
