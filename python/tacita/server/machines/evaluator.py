"""An evaluator: the server of one client's plan, on a node. Keys and circuit stay; bytes go in and out.

It is an ordinary object, which Ray makes on its node. What passes between it and the client is bytes, texts
and numbers: a `Kit`, weights and pieces of keys once, then requests and responses. It holds what any server
of ours holds (docs/threat-model.md): public keys, ciphertexts, and weights; no secret key, and no text.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacita.checkpoint import from_tensors
from tacita.checkpoint.load import Checkpoint
from tacita.errors import TacitaError
from tacita.evaluate.session import Server
from tacita.evaluate.standing import Standing
from tacita.models.registry import Config
from tacita.plans.plan import Plan, parse
from tacita.texts.embedding import decode, parse_raw, to_bytes
from tacita.version import __version__

Bytes = npt.NDArray[np.uint8]  # which Ray's store hands out without a copy
PREFIX, LOCK = "tacita-evaluator-", "lock"
WEIGHTS = "the client's weights"


@dataclass(frozen=True)
class Kit:
    """What an evaluator is told beside keys and weights. plan: text; salt: of its commitment. config: of the
    model. memory: GB. folder: below which it works; empty for the machine's own place for such files."""

    plan: str
    salt: str
    name: str
    config: Config
    memory: float
    allow_insecure: bool
    folder: str = ""
    version: str = __version__


@dataclass(frozen=True)
class Evaluated:
    """A request that was evaluated. response: a file's bytes. seconds: of the evaluation. processor: seconds
    that its cores worked, which other work on the machine does not lengthen."""

    response: Bytes
    seconds: float
    processor: float


@dataclass(frozen=True)
class Failed:
    """A call that failed. why: an error's words, and its hint."""

    why: str
    hint: str = ""


def kit_of(plan: Plan, model: Checkpoint, memory: float, *, allow_insecure: bool, folder: str) -> Kit:
    """Returns the kit of a plan with its salt, and its model."""
    return Kit(plan.to_text(), plan.salt, model.name, model.config, memory, allow_insecure, folder)


def weights_of(model: Checkpoint) -> bytes:
    """Returns all tensors in the fewest bytes that keep them exactly: a node needs no file of the model."""
    return to_bytes(model.tensors)


class Evaluator:
    """One client's plan on so many cores. `prepare` comes first, then `take` with every piece of the keys and
    `load`; `close` removes its files.

    Its calls return errors of ours instead of raising them: a `Failed` is plain data.
    """

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._server: Server | None = None
        self._held: Held | None = None

    def prepare(self, kit: Kit, weights: Bytes) -> Failed | None:
        """Builds the circuit. Cost: seconds."""
        if refused := release_refused(kit):
            return refused
        try:
            self._server = self._build_server(kit, weights)
        except TacitaError as error:
            self.close()
            return Failed(str(error), error.hint)
        return None

    def take(self, begin: int, piece: Bytes) -> Failed | None:
        """Writes a piece of the file of keys, from this byte on."""
        try:
            write_piece(self._prepared.work.evaluation_keys, begin, piece)
        except OSError as error:
            return Failed(f"a node cannot keep keys: {error.strerror}", "make room on its disk")
        return None

    def load(self) -> float | Failed:
        """Reads the keys, all of which are there, and removes their file; returns seconds. Cost: see
        `KeyRing.load`."""
        began, server = time.monotonic(), self._prepared
        try:
            server.load_keys()
        except TacitaError as error:
            self.close()
            return Failed(str(error), error.hint)
        server.work.evaluation_keys.unlink()
        return time.monotonic() - began

    def evaluate(self, request: Bytes) -> Evaluated | Failed:
        """Returns the response to a request file's bytes. Cost: an evaluation."""
        server = self._prepared
        began, worked, work = time.monotonic(), time.process_time(), server.work
        try:
            request.tofile(work.request)
            server.evaluate()
            response = np.fromfile(work.response, np.uint8)
            return Evaluated(response, time.monotonic() - began, time.process_time() - worked)
        except TacitaError as error:
            return Failed(str(error), error.hint)
        finally:
            work.request.unlink(missing_ok=True)
            work.response.unlink(missing_ok=True)

    def close(self) -> None:
        """Removes its folder."""
        if self._held is not None:
            self._held.close()
            self._held = None

    @property
    def _prepared(self) -> Server:
        assert self._server is not None  # the client waits for `prepare`
        return self._server

    def _build_server(self, kit: Kit, weights: Bytes) -> Server:
        self._held = own_folder(Path(kit.folder or tempfile.gettempdir()))
        return standing_of(kit, weights, self._held.path, self._cores).server(self._held.path)


def write_piece(path: Path, begin: int, piece: Bytes) -> None:
    """Writes a piece into a file that grows piece by piece; the first one begins it anew. What cannot be
    written whole is removed. Raises OSError."""
    try:
        with path.open("wb" if begin == 0 else "r+b") as file:
            file.seek(begin)
            file.write(piece.data)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def standing_of(kit: Kit, weights: Bytes, folder: Path, cores: int) -> Standing:
    """Returns the server of the plan, its circuit built. Raises for a plan or weights that do not fit."""
    return Standing(
        parse(kit.plan, "the client's plan", kit.salt),
        _model(kit, weights),
        folder,
        threads=cores,
        memory=kit.memory,
        resume=False,  # what is lost with this machine is evaluated on another one
        allow_insecure=kit.allow_insecure,
    )


def release_refused(kit: Kit) -> Failed | None:
    """Returns why the node cannot evaluate for a client of another release, None for one of the same."""
    if kit.version == __version__:
        return None
    return Failed(f"the node has release {__version__}, the client {kit.version}", "install one release")


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


def _model(kit: Kit, weights: Bytes) -> Checkpoint:
    raw = parse_raw(weights.tobytes(), WEIGHTS)
    tensors = {name: decode(WEIGHTS, name, entry) for name, entry in raw.items()}
    return from_tensors(kit.config, tensors, name=kit.name, where=WEIGHTS)
