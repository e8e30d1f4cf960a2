"""What every step command does: load the plan and model of its folder, time itself, report memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.documents import with_documents
from tacita.cli.console import write_report
from tacita.plans.plan import Plan
from tacita.protocol.files import Workdir, require
from tacita.run.resources import peak_memory_gb
from tacita.tasks.index import Index


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
