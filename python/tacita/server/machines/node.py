"""An evaluator on a node: jobs of one plan, under keys of many clients, which stay in memory.

It is an ordinary object, which Ray makes on its node and `forward` calls. What passes is bytes, texts and
numbers; what a worker on the server's own machine would say, it says in the same lines. It holds what any
server of ours holds (docs/threat-model.md): public keys, ciphertexts and weights; no secret key, and no text.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from tacita.checkpoint import Checkpoint, from_tensors
from tacita.errors import CheckpointError, TacitaError
from tacita.models.registry import FAMILIES, family_of
from tacita.plans.files import Workdir, replacing, write_text
from tacita.plans.json_fields import from_json, to_json
from tacita.plans.plan import parse
from tacita.progress import Progress
from tacita.server import logs
from tacita.server.child import Unable, encode
from tacita.server.jobs.evaluator import EndedError, JobEvaluator
from tacita.server.jobs.messages import Done, Evaluate, Passed, WorkerSpec
from tacita.texts.embedding import decode, parse_raw, to_bytes
from tacita.version import __version__

Bytes = npt.NDArray[np.uint8]  # which Ray's store hands out without a copy
JOB = "job"  # the folder of the one job
PREFIX, LOCK = "tacita-evaluator-", "lock"
MODEL, WEIGHTS = "model.json", "model.safetensors"
WHERE = "the client's weights"


class Node:
    """An evaluator on so many cores. `open` comes first, then `take` with the pieces of the weights, then
    `build`; after them all but `stop` are called one by one.

    Errors of ours are returned as `Unable`, not raised: that is plain data.
    """

    _held: Held | None = None  # of the class, too: Ray drops objects of it that were never made

    def __init__(self, cores: int) -> None:
        self._cores, self._stopped = cores, ""
        self._evaluator: JobEvaluator | None = None

    def open(self, version: str, folder: str) -> Unable | None:
        """Makes a folder, below this one or, where that is empty, the machine's own place for such files.
        Refuses a client of another release."""
        if version != __version__:
            return Unable(f"the node has release {__version__}, the client {version}", "install one release")
        self._held = own_folder(Path(folder or tempfile.gettempdir()))
        return None

    def build(self, plan: str, salt: str, model: str, spec: WorkerSpec) -> Unable | None:
        """Reads the weights, which have been taken, and builds the circuit. plan, model: the texts of their
        files. salt: of the plan's commitment. spec: of the worker that hands on its jobs. Cost: seconds."""
        path = self._path(WEIGHTS)
        logs.start(model=spec.model, scheme=spec.scheme, worker=os.getpid())
        try:
            self._evaluator = JobEvaluator(
                parse(plan, "the client's plan", salt),
                parse_model(model, path.read_bytes()),
                replace(spec, root=path.parent, threads=self._cores),
                resume=False,  # what is lost with this machine is evaluated on another one
                mark=lambda path: path.name,
            )
        except TacitaError as error:
            self.close()
            return Unable.of(error)
        path.unlink()
        return None

    def holds(self, key_id: str, mark: str) -> bool:
        """Returns whether a client's keys are in memory. mark: of the file that they must be from."""
        return self._ready.holds(key_id, mark)

    def take(self, name: str, begin: int, piece: Bytes) -> str:
        """Writes a piece of a file of weights or keys, from this byte on; the first one begins it anew.
        Returns why it cannot be kept, or nothing; the file is then removed."""
        path = self._path(name)
        try:
            with path.open("wb" if begin == 0 else "r+b") as file:
                file.seek(begin)
                file.write(piece.data)
        except OSError as error:
            path.unlink(missing_ok=True)
            return str(error.strerror)
        return ""

    def evaluate(
        self, id: str, key_id: str, mark: str, request: Bytes
    ) -> Iterator[tuple[bytes, Bytes | None]]:
        """Yields what a worker would say of a job, as lines: each stage as it comes, and at last the answer,
        with the response. Cost: an evaluation; the first under these keys reads them, too."""
        folder, keys, lines = Workdir(self._path(JOB)), self._path(mark), SimpleQueue[bytes | None]()
        shutil.rmtree(folder.path, ignore_errors=True)  # of a job that was broken off
        self._stopped = ""

        def report(now: Progress) -> None:
            keys.unlink(missing_ok=True)  # they are in memory now
            if self._stopped == id:
                raise EndedError
            lines.put(encode(Passed(id, now)))

        try:
            folder.path.mkdir()
            request.tofile(folder.request)
            with ThreadPoolExecutor(1) as thread:
                future = thread.submit(self._ready.answer, Evaluate(id, key_id, keys, folder.path), report)
                future.add_done_callback(lambda _: lines.put(None))
                while (line := lines.get()) is not None:
                    yield line, None
            answer = future.result()
            response = np.fromfile(folder.response, np.uint8) if isinstance(answer, Done) else None
            yield encode(answer), response
        finally:
            keys.unlink(missing_ok=True)
            shutil.rmtree(folder.path, ignore_errors=True)

    def stop(self, id: str) -> None:
        """Ends the job before its next stage."""
        self._stopped = id

    def close(self) -> None:
        """Removes its folder. Ray drops an actor whose client is gone, which closes it, too."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def __del__(self) -> None:
        self.close()

    @property
    def _ready(self) -> JobEvaluator:
        assert self._evaluator is not None  # who calls waits for `build`
        return self._evaluator

    def _path(self, name: str) -> Path:
        assert self._held is not None  # who calls waits for `open`
        return self._held.path / name


@dataclass(frozen=True)
class Held:
    """A folder of one evaluator's own. lock: open, on a file in it, as long as the evaluator lives."""

    lock: int
    path: Path

    def close(self) -> None:
        """Removes the folder and gives up its lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def own_folder(below: Path) -> Held:
    """Makes a new folder. Removes those of evaluators that were killed: whoever lives holds its lock."""
    for folder in below.glob(f"{PREFIX}*"):
        if (lock := _lock_folder(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
    new = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=below))
    (new / LOCK).touch(mode=0o600)
    lock = _lock_folder(new)
    assert lock is not None  # nobody looks for its name yet
    return Held(lock, new.rename(below / new.name.removeprefix(".")))


def _lock_folder(folder: Path) -> int | None:
    """Locks the folder's file. Returns the descriptor, None where somebody has it or there is none."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


# A model as two files of a form of its own: what travels to nodes is what was loaded and checked.
#
# model.json             the model's name, its family, its configuration
# model.safetensors      all tensors in the fewest bytes that keep them exactly


def write_model(model: Checkpoint, folder: Path) -> None:
    """Writes both files. Raises FileError."""
    family, config = family_of(model.config), to_json(model.config)
    with replacing(folder / WEIGHTS) as path:
        path.write_bytes(to_bytes(model.tensors))
    write_text(folder / MODEL, json.dumps({"name": model.name, "family": family, "config": config}))


def parse_model(text: str, weights: bytes) -> Checkpoint:
    """Returns the model of both files' contents. Raises CheckpointError for what is none."""
    try:
        fields = json.loads(text)
        config = from_json(FAMILIES[fields["family"]].config, fields["config"])
        name = str(fields["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{MODEL}: no model ({error!s:.200})", hint="use one release") from error
    tensors = {key: decode(WHERE, key, entry) for key, entry in parse_raw(weights, WHERE).items()}
    return from_tensors(config, tensors, name=name, where=WHERE)
