"""Answers jobs one after the other with what stays in this process: model, plan, circuit, clients' keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tacita.checkpoint import Checkpoint, load
from tacita.errors import CheckpointError, FileError, InputError, ResourceError, TacitaError
from tacita.plans.plan import Plan
from tacita.protocol import envelope
from tacita.protocol.files import Workdir, require
from tacita.run.progress import Progress
from tacita.server.standing.standing import Standing
from tacita.service.dispatch.base import INTERNAL, REFUSED, RESOURCES
from tacita.service.workers.figures import figures
from tacita.service.workers.keys import Keys
from tacita.service.workers.log import Log, where
from tacita.service.workers.messages import MOST_TEXT, Done, Evaluate, Failed, Setup, Stopped

Report = Callable[[Progress], None]


class EndedError(Exception):
    """What a report raises to end an evaluation before its next stage."""


@dataclass(frozen=True)
class Bench:
    """Everything that one evaluation leaves for the next."""

    standing: Standing
    keys: Keys
    log: Log

    def answer(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates; whatever is wrong with a job is its answer, and the next may be well."""
        began = time.monotonic()
        try:
            found = _Run(self, job, report).figures()
            return Done(job.id, time.monotonic() - began, found, len(self.keys))
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
    """Plan and model. Raises TacitaError for what cannot be served, CheckpointError for another model than
    the one that is expected."""
    plan = Plan.load(require(Workdir(Path(setup.plan)).plan, "plan"))
    model = load(setup.folder, pooling=plan.model.pooling, embeddings=plan.model.embeddings is not None)
    if model.sha256 != setup.sha256:
        raise CheckpointError(
            f"{setup.folder}: sha256 {model.sha256}, expected {setup.sha256}",
            hint="were the files changed while the service ran? start it again",
        )
    return plan, model


def opened(setup: Setup, log: Log) -> Bench:
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
    return Bench(standing, Keys(standing.ring), log)


@dataclass(frozen=True)
class _Run:
    """One evaluation."""

    bench: Bench
    job: Evaluate
    report: Report
    passed: list[Progress] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        began = time.monotonic()
        folder, keys = self._files()
        loaded = self.bench.keys.provide(self.job.key_id, keys)
        there = time.monotonic()
        usage = self.bench.standing.evaluate(folder, self._pass, self._notice).usage
        return figures(
            usage,
            self.passed,
            keys_loaded=loaded,
            keys_seconds=there - began if loaded else 0.0,
            evaluate=time.monotonic() - there,
        )

    def _files(self) -> tuple[Path, Path]:
        """Folder and keys, below the root. Raises FileError for a request of other keys, before these are
        read; InputError for files elsewhere."""
        folder, keys = self.bench.standing.folder(self.job.folder), Path(self.job.keys).resolve()
        if not keys.is_relative_to(self.bench.standing.root):
            raise InputError("evaluate: keys outside the folder that this worker answers", hint="")
        if envelope.key_of(require(Workdir(folder).request, "encrypt"), "request") != self.job.key_id:
            raise FileError("request.ct: made with other keys than it is sent for", hint="encrypt it again")
        return folder, keys

    def _pass(self, now: Progress) -> None:
        self.passed.append(now)
        self.report(now)

    def _notice(self, text: str) -> None:
        self.bench.log("notice", job=self.job.id, text=_without_paths(text, self.job))


def _without_paths(text: str, job: Evaluate) -> str:
    """For the client, whom the places of files on the server do not concern."""
    for path in {job.folder, str(Path(job.folder).resolve())}:
        text = text.replace(f"{path}/", "").replace(path, "the request's folder")
    for path in {job.keys, str(Path(job.keys).resolve())}:
        text = text.replace(path, "evaluation.keys")
    return text[:MOST_TEXT]
