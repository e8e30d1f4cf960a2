"""The evaluator of a worker process: jobs in turn, and between them plan, weights, circuit and keys.

A key's id is chosen by who made it, so that two clients can bring one id: keys in memory are used for a file
alone from which they were read.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

from tacita.checkpoint import Checkpoint, load
from tacita.errors import CheckpointError, FileError, InputError, ResourceError, TacitaError
from tacita.evaluate.keyring import KeyRing
from tacita.evaluate.session import Server
from tacita.planning.circuit import circuit_of
from tacita.plans import envelope
from tacita.plans.files import Workdir, require
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.resources import CPU, peak_memory_gb
from tacita.server import logs
from tacita.server.child import MOST_TEXT
from tacita.server.jobs.messages import (
    INTERNAL,
    REFUSED,
    RESOURCES,
    Done,
    Evaluate,
    Failed,
    Stopped,
    WorkerSpec,
)

Report = Callable[[Progress], None]
STAGE = "stage_seconds."  # before a stage's name
SPILL_WRITTEN = "spill_written_gb"


class EndedError(Exception):
    """Is raised by a report to end an evaluation before its next stage."""


def mark_of(path: Path) -> str:
    """Returns a hash of a file's name and state. Raises FileError where there is no such file."""
    try:
        stat = path.stat()
    except OSError as error:
        raise FileError("evaluation.keys: they are not there", hint="upload them again") from error
    state = (str(path), stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return hashlib.sha256(repr(state).encode()).hexdigest()


class JobEvaluator:
    """Answers jobs of one plan. spec: root, cores, memory and resume points. resume: as of `Server`. mark:
    of a file of keys, tells it from another one. Raises PlanError for another model than the plan's,
    ResourceError for a device that cannot serve."""

    def __init__(
        self,
        plan: Plan,
        model: Checkpoint,
        spec: WorkerSpec,
        *,
        resume: bool = True,
        mark: Callable[[Path], str] = mark_of,
    ) -> None:
        limits: dict[str, Any] = {"threads": spec.threads, "memory": spec.memory}
        self.ring = KeyRing(plan, **limits, allow_insecure=spec.allow_insecure, device=spec.device)
        self.root, self._mark = spec.root.resolve(), mark
        limits |= {"resume": resume, "save_every": spec.save_every}
        self._server: Callable[..., Server] = partial(Server, plan, model, ring=self.ring, **limits)
        self._keeps = bool(plan.kept)
        circuit_of(plan, model)
        if spec.device != CPU:
            self.ring.prepare()  # a device that fails is the operator's to know, before a client comes
        Thread(target=self.ring.provide, name="provide").start()  # beside the wait for the first job

    def answer(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates a job; whatever is wrong with a job is its answer, and the next may be well. What
        `report` raises ends it before its next stage."""
        began = time.monotonic()
        try:
            figures = self._evaluate(job, report)
            return Done(job.id, time.monotonic() - began, figures, len(self.ring))
        except EndedError:
            return Stopped(job.id, len(self.ring))
        except TacitaError as error:
            code = RESOURCES if isinstance(error, ResourceError) else REFUSED
            text, hint = (_without_paths(each, job) for each in (str(error), error.hint))
            return Failed(job.id, code, text, hint, len(self.ring))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a defect, a panic of the engine, no memory
            logs.error("defect", job=job.id)
            what = f"the evaluation failed ({type(error).__name__})"
            return Failed(job.id, INTERNAL, what, "", len(self.ring))

    def holds(self, key_id: str, mark: str) -> bool:
        """Returns whether the keys of this id are in memory, and from the file of this mark."""
        held = self.ring.held(key_id)
        return held is not None and held.mark == mark

    def provide(self, key_id: str, path: Path) -> bool:
        """Reads the keys of this id from this file, unless they are in memory. Returns whether they had to be
        read. Raises FileError for a file of other keys, and as `KeyRing.load`."""
        mark = self._mark(path)
        if self.holds(key_id, mark):
            return False
        loaded_id = self.ring.load(path, mark).key_id
        if loaded_id != key_id:
            self.ring.forget(loaded_id)  # another's keys of that id may have been replaced
            raise FileError("evaluation.keys: they are not the keys of that id", hint="upload them again")
        return True

    def _evaluate(self, job: Evaluate, report: Report) -> dict[str, float]:
        """Writes response.ct, and returns what that took, by name. Seconds: evaluate_seconds;
        processor_seconds, which cores worked, and other work on the machine does not lengthen; keys_seconds
        (0 where the keys were in memory, keys_loaded then 0); and stage_seconds.NAME of each stage of this
        run, bootstraps included. resumed_stages: that an earlier run had finished. GB: ciphertext_gb in
        memory, spilled_gb on disk at most, spill_written_gb, spill_read_gb, peak_memory_gb of the process so
        far."""
        began, passed = time.monotonic(), list[Progress]()
        (folder, keys), text = self._files(job), self._text(job)
        loaded = self.provide(job.key_id, keys)
        there, worked = time.monotonic(), time.process_time()

        def note(now: Progress) -> None:
            passed.append(now)
            report(now)

        server = self._server(folder, text=text)
        server.evaluate(note, lambda text: logs.say("notice", job=job.id, text=_without_paths(text, job)))
        usage = server.usage
        return {
            "evaluate_seconds": time.monotonic() - there,
            "processor_seconds": time.process_time() - worked,
            "keys_seconds": there - began if loaded else 0.0,
            "keys_loaded": float(loaded),
            "resumed_stages": float(usage.resumed),
            "ciphertext_gb": usage.ciphertexts,
            "spilled_gb": usage.disk,
            SPILL_WRITTEN: usage.written,
            "spill_read_gb": usage.read,
            "peak_memory_gb": peak_memory_gb(),
            **{STAGE + a.stage: b.seconds - a.seconds for a, b in pairwise(passed)},
        }

    def _text(self, job: Evaluate) -> Path | None:
        """Returns the folder of the rows of the job's text, if the plan keeps rows. Raises InputError for one
        outside the root or not there, and for none or one where it must be the other."""
        if job.text is None and not self._keeps:
            return None
        try:
            folder = (job.text or Path()).resolve(strict=True) if self._keeps else None
        except (OSError, ValueError, RuntimeError):
            folder = None
        if not (job.text and folder and folder.is_dir() and folder.is_relative_to(self.root)):
            raise InputError("evaluate: not a text of a plan that keeps rows", hint="begin a text")
        return folder

    def _files(self, job: Evaluate) -> tuple[Path, Path]:
        """Returns folder and keys, links followed. Raises InputError for those outside the root, and for a
        folder that is not there, in the same words; FileError for a request of other keys, before these are
        read."""
        try:
            folder, keys = job.folder.resolve(strict=True), job.keys.resolve()
            good = job.folder.is_absolute() and folder.is_relative_to(self.root) and folder.is_dir()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, a loop of links
            good = False
        if not good:
            raise InputError(
                "evaluate: no folder of that name below the one that this server answers", hint=""
            )
        if not keys.is_relative_to(self.root):
            raise InputError("evaluate: keys outside the folder that this worker answers", hint="")
        if envelope.key_of(require(Workdir(folder).request, "encrypt"), "request") != job.key_id:
            raise FileError("request.ct: made with other keys than it is sent for", hint="encrypt it again")
        return folder, keys


def open_evaluator(spec: WorkerSpec) -> JobEvaluator:
    """Loads plan and model, and builds the circuit: once a process. Raises TacitaError for what cannot be
    served, CheckpointError for another model than the one that is expected."""
    plan = Plan.load(require(Workdir(spec.plan).plan, "plan"))
    model = load(spec.folder, pooling=plan.model.pooling, embeddings=plan.model.embeddings is not None)
    if model.sha256 != spec.sha256:
        raise CheckpointError(
            f"{spec.folder}: sha256 {model.sha256}, expected {spec.sha256}",
            hint="were the files changed while the service ran? start it again",
        )
    return JobEvaluator(plan, model, spec)


def _without_paths(text: str, job: Evaluate) -> str:
    """Removes the paths of files on the server from a text for the client."""
    places = {job.folder: "the request's folder", job.keys: "evaluation.keys"}
    places |= {job.text: "the text's folder"} if job.text else {}
    for place, words in places.items():
        for path in {str(place), str(place.resolve())}:
            text = text.replace(f"{path}/", "").replace(path, words)
    return text[:MOST_TEXT]
