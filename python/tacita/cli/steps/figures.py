"""The figures of an evaluation: seconds by stage, memory, files; as `--json` has them, and for people."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tacita.api import Server
from tacita.cli.console import size
from tacita.plans.plan import Plan
from tacita.run.progress import Progress
from tacita.server.session import Usage


def figures_of(server: Server) -> dict[str, Any]:
    """Of its last evaluation."""
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
