"""The evaluator of a worker process: jobs one after the other, with what stays in memory between them.

A key's id is chosen by who made it, so that two clients can bring one id, and the ring knows ids alone:
`Keys` remembers which file each was read from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tacita.checkpoint import Checkpoint, load
from tacita.errors import CheckpointError, FileError, InputError, ResourceError, TacitaError
from tacita.evaluate.keyring import KeyRing
from tacita.evaluate.session import Standing, Usage
from tacita.plans import envelope
from tacita.plans.files import Workdir, require
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.resources import peak_memory_gb
from tacita.server.child import MOST_TEXT
from tacita.server.jobs.messages import Done, Evaluate, Failed, Log, Setup, Stopped, where
from tacita.server.jobs.queue import INTERNAL, REFUSED, RESOURCES


@dataclass(frozen=True)
class Source:
    """A file as it was when it was read."""

    path: Path
    device: int
    inode: int
    changed: int
    size: int


class Keys:
    """The keys of a ring, each from the file that was read last under its id. source: what tells one file
    from another. read: called with a file once its keys are in memory."""

    def __init__(
        self,
        ring: KeyRing,
        source: Callable[[Path], Hashable] | None = None,
        read: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._ring, self._source, self._read = ring, source or source_of, read
        self._sources = dict[str, Hashable]()

    def __len__(self) -> int:
        return len(self._ring)

    def provide(self, key_id: str, path: Path) -> bool:
        """Reads the keys of this id from this file, unless they are in memory. Returns whether they had to be
        read. Raises FileError for a file of other keys, and as `KeyRing.load`."""
        source = self._source(path)
        if self.holds(key_id, source):
            return False
        loaded_id = self._ring.load(path).key_id
        if loaded_id != key_id:
            self._forget(loaded_id)  # another's keys of that id may have been replaced
            raise FileError("evaluation.keys: they are not the keys of that id", hint="upload them again")
        self._sources[key_id] = source
        self._read(path)
        return True

    def holds(self, key_id: str, source: Hashable) -> bool:
        """Returns whether the keys of this id are in memory, and from there."""
        return self._ring.held(key_id) is not None and self._sources.get(key_id) == source

    def _forget(self, key_id: str) -> None:
        self._sources.pop(key_id, None)
        self._ring.forget(key_id)


def source_of(path: Path) -> Source:
    """Returns what tells a file from another. Raises FileError where there is no such file."""
    try:
        stat = path.stat()
    except OSError as error:
        raise FileError("evaluation.keys: they are not there", hint="upload them again") from error
    return Source(path, stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)


# What an evaluation is said to have taken: names and numbers, for metrics and logs.

STAGE = "stage_seconds."  # before a stage's name
SPILL_WRITTEN = "spill_written_gb"


def figures(
    usage: Usage,
    passed: Sequence[Progress],
    *,
    keys_loaded: bool,
    keys_seconds: float,
    evaluate: float,
    processor: float,
) -> dict[str, float]:
    """Returns what an evaluation took, by name. Seconds: evaluate_seconds; processor_seconds, which cores
    worked, and other work on the machine does not lengthen; keys_seconds (0 where the keys were in memory,
    keys_loaded then 0); and stage_seconds.NAME of each stage of this run, bootstraps included.
    resumed_stages: that an earlier run had finished. GB: ciphertext_gb in memory, spilled_gb on disk at most,
    spill_written_gb, spill_read_gb, peak_memory_gb of the process so far."""
    return {
        "evaluate_seconds": evaluate,
        "processor_seconds": processor,
        "keys_seconds": keys_seconds,
        "keys_loaded": float(keys_loaded),
        "resumed_stages": float(usage.resumed),
        "ciphertext_gb": usage.ciphertexts,
        "spilled_gb": usage.disk,
        SPILL_WRITTEN: usage.written,
        "spill_read_gb": usage.read,
        "peak_memory_gb": peak_memory_gb(),
        **{STAGE + a.stage: b.seconds - a.seconds for a, b in pairwise(passed)},
    }


# Answers jobs one after the other with what stays in this process: model, plan, circuit, clients' keys.

Report = Callable[[Progress], None]


class EndedError(Exception):
    """Is raised by a report to end an evaluation before its next stage."""


@dataclass(frozen=True)
class JobEvaluator:
    """The evaluator of a worker: everything that one evaluation leaves for the next."""

    standing: Standing
    keys: Keys
    log: Log

    def answer(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates a job; whatever is wrong with a job is its answer, and the next may be well."""
        began = time.monotonic()
        try:
            numbers = _Run(self, job, report).figures()
            return Done(job.id, time.monotonic() - began, numbers, len(self.keys))
        except EndedError:
            return Stopped(job.id, len(self.keys))
        except TacitaError as error:
            code = RESOURCES if isinstance(error, ResourceError) else REFUSED
            text, hint = (_without_paths(each, job) for each in (str(error), error.hint))
            return Failed(job.id, code, text, hint, len(self.keys))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a defect, a panic of the engine, no memory
            kind = type(error).__name__
            self.log("defect", job=job.id, kind=kind, where=where(error.__traceback__))
            return Failed(job.id, INTERNAL, f"the evaluation failed ({kind})", "", len(self.keys))


def loaded(setup: Setup) -> tuple[Plan, Checkpoint]:
    """Loads plan and model. Raises TacitaError for what cannot be served, CheckpointError for another model
    than the one that is expected."""
    plan = Plan.load(require(Workdir(Path(setup.plan)).plan, "plan"))
    model = load(setup.folder, pooling=plan.model.pooling, embeddings=plan.model.embeddings is not None)
    if model.sha256 != setup.sha256:
        raise CheckpointError(
            f"{setup.folder}: sha256 {model.sha256}, expected {setup.sha256}",
            hint="were the files changed while the service ran? start it again",
        )
    return plan, model


def open_evaluator(setup: Setup, log: Log) -> JobEvaluator:
    """Loads plan and model, builds the circuit: once a process. Raises as `loaded`, and PlanError."""
    plan, model = loaded(setup)
    standing = Standing(
        plan,
        model,
        Path(setup.root),
        threads=setup.threads,
        memory=setup.memory,
        allow_insecure=setup.allow_insecure,
        save_every=setup.save_every,
    )
    return JobEvaluator(standing, Keys(standing.ring), log)


@dataclass(frozen=True)
class _Run:
    """One evaluation."""

    evaluator: JobEvaluator
    job: Evaluate
    report: Report
    passed: list[Progress] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        began = time.monotonic()
        folder, keys = self._files()
        loaded = self.evaluator.keys.provide(self.job.key_id, keys)
        there, worked = time.monotonic(), time.process_time()
        server = self.evaluator.standing.server(folder)
        server.evaluate(self._pass, self._notice)
        return figures(
            server.usage,
            self.passed,
            keys_loaded=loaded,
            keys_seconds=there - began if loaded else 0.0,
            evaluate=time.monotonic() - there,
            processor=time.process_time() - worked,
        )

    def _files(self) -> tuple[Path, Path]:
        """Returns folder and keys, below the root. Raises FileError for a request of other keys, before these
        are read; InputError for files elsewhere."""
        folder, keys = self.evaluator.standing.folder(self.job.folder), Path(self.job.keys).resolve()
        if not keys.is_relative_to(self.evaluator.standing.root):
            raise InputError("evaluate: keys outside the folder that this worker answers", hint="")
        if envelope.key_of(require(Workdir(folder).request, "encrypt"), "request") != self.job.key_id:
            raise FileError("request.ct: made with other keys than it is sent for", hint="encrypt it again")
        return folder, keys

    def _pass(self, now: Progress) -> None:
        self.passed.append(now)
        self.report(now)

    def _notice(self, text: str) -> None:
        self.evaluator.log("notice", job=self.job.id, text=_without_paths(text, self.job))


def _without_paths(text: str, job: Evaluate) -> str:
    """Removes the paths of files on the server from a text for the client."""
    for path in {job.folder, str(Path(job.folder).resolve())}:
        text = text.replace(f"{path}/", "").replace(path, "the request's folder")
    for path in {job.keys, str(Path(job.keys).resolve())}:
        text = text.replace(path, "evaluation.keys")
    return text[:MOST_TEXT]
