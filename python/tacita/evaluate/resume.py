"""Resume points: the live tensors between two stages, saved so that a killed run goes on from there.

A point is a manifest over files of the spill store. Ciphertexts that were spilled already are not written
again; the manifest comes last and in one step, and only then do files that the point before it needed go. So
whenever a process is killed, the folder holds one whole point, or none. A manifest names the plan, the key,
the request and the release that it belongs to: with any other, or with a file that fails its checksum, a run
starts from the beginning. Evaluation is deterministic, so the response does not depend on whether a run was
resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from tacita.errors import FileError, ResourceError
from tacita.evaluate.spill import Handle, SpillFile, SpillingBackend, SpillStore
from tacita.evaluate.spill import store as manifest
from tacita.evaluate.spill.store import MANIFEST
from tacita.packings.executor import Reached
from tacita.slots.stage import Live

FORMAT = "tacita-resume"
VERSION = 1
MAX_BYTES = 64 << 20
COST = 20  # a point is saved after at least so many times the seconds that the last one took


@dataclass(frozen=True)
class Run:
    """What must be the same for a run to go on. request: sha256 of the file, hex. release: of this
    program."""

    plan: str
    key: str
    request: str
    release: str


@dataclass(frozen=True)
class Saved:
    """A ciphertext of a point. memory: bytes that it takes once it is loaded."""

    file: SpillFile
    level: int
    memory: int


@dataclass(frozen=True)
class ResumePoint:
    """The content of a manifest. index: stages finished, stage: the last of them; the rest as in
    `executor.Reached`."""

    run: Run
    index: int
    stage: str
    complex_names: tuple[str, ...]
    tensors: Mapping[str, tuple[Saved, ...]]

    @property
    def files(self) -> list[SpillFile]:
        """Every file once: tensors can share ciphertexts."""
        return list({ct.file.name: ct.file for cts in self.tensors.values() for ct in cts}.values())


class Checkpoints:
    """Called between stages, saves a point when the last is old enough.

    every: seconds from one to the next, 0 for one after each stage. notice: told when a point could not be
    saved, for want of disk: the run goes on, and the point before stays.
    """

    def __init__(
        self,
        be: SpillingBackend,
        run: Run,
        stages: Sequence[str],
        every: float,
        notice: Callable[[str], None],
    ) -> None:
        self._be, self._run, self._stages, self._every, self._notice = be, run, stages, every, notice
        self._due = time.monotonic() + every

    def __call__(self, reached: Reached) -> None:
        began = time.monotonic()
        if began < self._due:
            return
        try:
            save(self._be, self._point(reached))
        except (FileError, ResourceError) as error:
            self._notice(f"no resume point after stage {self._stages[reached.index - 1]}: {error}")
        now = time.monotonic()
        self._due = now + max(self._every, COST * (now - began)) if self._every else now

    def _point(self, reached: Reached) -> ResumePoint:
        tensors = {name: tuple(self._saved(ct) for ct in cts) for name, cts in reached.live.items()}
        stage = self._stages[reached.index - 1]
        return ResumePoint(self._run, reached.index, stage, tuple(sorted(reached.complex_names)), tensors)

    def _saved(self, ct: Handle) -> Saved:
        return Saved(self._be.pool.persist(ct), ct.level, ct.entry.nbytes)


@contextmanager
def workspace(folder: Path, notice: Callable[[str], None] = lambda _: None) -> Iterator[SpillStore]:
    """The store of one run. Afterwards the folder is gone, unless the run failed and has left a resume point,
    or others have put something there: that is told to `notice` and left alone."""
    store = SpillStore(folder)
    try:
        if odd := store.unknown():
            notice(f"{folder} holds {', '.join(odd[:3])}, which Tacita did not write and leaves alone")
        yield store
    except BaseException:
        store.close(keep=store.has_manifest())
        raise
    store.close(keep=False)


def save(be: SpillingBackend, point: ResumePoint) -> None:
    """Writes the manifest of files that are in the store; from then on the store holds them and no others."""
    be.pool.store.write_manifest(manifest.stated(FORMAT, VERSION, point))
    be.pool.store.hold({file.name for file in point.files})


def find(store: SpillStore, run: Run) -> ResumePoint | None:
    """The point in the store; None when there is none. Raises FileError when it is damaged or of another
    run."""
    path = store.folder / MANIFEST
    try:
        if (text := store.read_manifest(MAX_BYTES)) is None:
            return None
        point = manifest.parsed(text, FORMAT, VERSION, ResumePoint)
    except manifest.MALFORMED as error:
        raise FileError(f"{path}: not a whole resume point ({error})", hint="") from error
    if differing := [f.name for f in fields(Run) if getattr(point.run, f.name) != getattr(run, f.name)]:
        raise FileError(f"{path}: of another {' and '.join(differing)}", hint="")
    return point


def restore(be: SpillingBackend, point: ResumePoint) -> Live:
    """The point's tensors, on disk until they are needed. Raises FileError for a file that fails its
    checks."""
    pool = be.pool
    pool.store.adopt(point.files)
    saved = {ct.file.name: ct for cts in point.tensors.values() for ct in cts}
    handles = {name: pool.revive(ct.file, ct.level, ct.memory) for name, ct in saved.items()}
    return {name: tuple(handles[ct.file.name] for ct in cts) for name, cts in point.tensors.items()}
