"""What every step command does: load the plan and model of its folder, time itself, report memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tacita.api import Server
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.load import with_documents
from tacita.cli.console import size, write_report
from tacita.evaluate.session import Usage
from tacita.plans.files import Workdir, require
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.resources import peak_memory_gb
from tacita.texts.vectors import Index


def opened(work: Path, model: Path, documents: Path | None = None) -> tuple[Plan, Checkpoint, Workdir]:
    """Plan, checkpoint and files of a step; hidden-state models load without embeddings."""
    folder = Workdir(work)
    plan = Plan.load(require(folder.plan, "plan"))
    found = load(model, pooling=plan.model.pooling, embeddings=plan.model.embeddings is not None)
    return plan, with_documents(found, Index.load(documents)) if documents else found, folder


@dataclass
class Timed:
    """Seconds of one step and what it adds to its report."""

    step: str
    seconds: float = 0.0
    fields: dict[str, Any] = field(default_factory=dict)


@contextmanager
def step(name: str, report: Path | None) -> Iterator[Timed]:
    """Times a step and writes its `--json` report on success."""
    timed = Timed(name)
    began = time.monotonic()
    yield timed
    timed.seconds = time.monotonic() - began
    figures = {
        "step": name,
        "seconds": {name: timed.seconds},
        "peak_rss_gb": peak_memory_gb(),
        **timed.fields,
    }
    write_report(report, figures)


# The figures of an evaluation: seconds by stage, memory, files; as `--json` has them, and for people.


def figures_of(server: Server) -> dict[str, Any]:
    """Returns bytes, seconds and threads of the server's last evaluation."""
    return {
        "bytes": {"response": server.work.response.stat().st_size},
        "threads": server.threads,
        "bootstraps": server.plan.bootstraps,
        **usage_fields(server.usage),
        "predicted_stage_seconds": predicted_stage_seconds(server.plan),
    }


class StageTimes:
    """Passes progress on and keeps when each stage began, bootstraps included. A resumed run reports its own
    stages."""

    def __init__(self, report: Callable[[Progress], None]) -> None:
        self._report = report
        self._began: list[tuple[str, float]] = []

    def __call__(self, now: Progress) -> None:
        self._began.append((now.stage, now.seconds))
        self._report(now)

    def seconds(self) -> dict[str, float]:
        """Stage -> measured seconds."""
        return {name: end - start for (name, start), (_, end) in pairwise(self._began)}


def predicted_stage_seconds(plan: Plan) -> dict[str, float]:
    """Stage -> seconds of the plan's prediction."""
    return {stage.name: t for stage, t in zip(plan.stages, plan.prediction.stage_seconds, strict=True)}


def forecast_text(memory: int, spilled: int) -> str:
    """What a run takes, in bytes, for people."""
    disk = f", and {size(spilled)} on disk for ciphertexts that do not fit" if spilled else ""
    return f"up to {size(memory)} of memory{disk}"


def usage_fields(usage: Usage) -> dict[str, float]:
    """Fields of a report: GB of ciphertexts in memory, of files on disk at most, written and read; stages
    skipped."""
    return {
        "ciphertext_gb": usage.ciphertexts,
        "spill_gb": usage.disk,
        "spill_written_gb": usage.written,
        "spill_read_gb": usage.read,
        "resumed_stages": usage.resumed,
    }
