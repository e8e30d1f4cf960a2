"""`tacita evaluate`: the server's step, from request.ct to response.ct without a secret."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated

import typer

from tacita.api import Server
from tacita.cli.console import MESSAGE, duration, err, out, progress, shown, size
from tacita.cli.options import MODEL_DEFAULT, WORK_DEFAULT, Insecure, Json, Model, Threads, Work
from tacita.cli.steps.step import opened, step
from tacita.plans.plan import Plan
from tacita.run.executor import Progress
from tacita.server.session import MEMORY_GB, Usage

Memory = Annotated[
    float,
    typer.Option("--memory", help="GB to stay within; ciphertexts that do not fit wait on disk.", min=0.1),
]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on where a killed run stood, and leave such points.")
]


def run(
    work: Work = WORK_DEFAULT,
    model: Model = MODEL_DEFAULT,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    resume: Resume = True,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Run the model on the ciphertexts."""
    with step("evaluate", json) as timed, progress("evaluate") as report:
        plan, checkpoint, folder = opened(work, model)
        server = Server(
            plan,
            checkpoint,
            folder,
            threads=threads,
            allow_insecure=allow_insecure,
            memory=memory,
            resume=resume,
        )
        out.print(f"evaluate: {forecast_text(*server.forecast())}", soft_wrap=True)
        stages = StageTimes(report)
        written = server.evaluate(stages, _notice).stat().st_size
        timed.fields |= {
            "bytes": {"response": written},
            "threads": server.threads,
            "bootstraps": plan.bootstraps,
        }
        timed.fields |= usage_fields(server.usage)
        timed.fields["stage_seconds"] = stages.seconds()
        timed.fields["predicted_stage_seconds"] = predicted_stage_seconds(plan)
    out.print(
        f"evaluate: {shown(str(folder.response))} ({size(written)}) in {duration(timed.seconds)}",
        soft_wrap=True,
    )


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


def _notice(line: str) -> None:
    err.print(f"evaluate: {shown(line, MESSAGE)}", soft_wrap=True)
