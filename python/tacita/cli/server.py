"""`tacita evaluate`: the server's step, from request.ct to response.ct without a secret."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

import typer

from tacita.api import DEFAULT_MODEL, Server
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.load import with_documents
from tacita.cli.console import MESSAGE, duration, err, out, progress, shown, size
from tacita.cli.options import WORK_DEFAULT, Json, taking
from tacita.cli.report import step
from tacita.evaluate.session import Usage
from tacita.plans.files import Workdir, require
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.settings import Settings
from tacita.texts.vectors import Index

Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on where a killed run stood, and leave such points.")
]


@taking({"plan": ("model", "documents"), "run": ("work", "threads", "memory", "allow_insecure")})
def evaluate(settings: Settings, resume: Resume = True, json: Json = None) -> None:
    """Run the model on the ciphertexts."""
    run = settings.run
    with step("evaluate", json) as timed, progress("evaluate") as report:
        plan, checkpoint, folder = opened(settings)
        server = Server(
            plan,
            checkpoint,
            folder,
            threads=run.threads,
            allow_insecure=run.allow_insecure,
            memory=run.memory,
            resume=resume,
        )
        out.print(f"evaluate: {forecast_text(*server.forecast())}", soft_wrap=True)
        stages = StageTimes(report)
        written = server.evaluate(stages, _notice).stat().st_size
        timed.fields |= figures_of(server) | {"stage_seconds": stages.seconds()}
    out.print(
        f"evaluate: {shown(str(folder.response))} ({size(written)}) in {duration(timed.seconds)}",
        soft_wrap=True,
    )


def _notice(line: str) -> None:
    err.print(f"evaluate: {shown(line, MESSAGE)}", soft_wrap=True)


def opened(settings: Settings) -> tuple[Plan, Checkpoint, Workdir]:
    """Returns plan, checkpoint and files of a step; hidden-state models load without embeddings."""
    folder = Workdir(settings.run.work or WORK_DEFAULT)
    plan, documents = Plan.load(require(folder.plan, "plan")), settings.plan.documents
    model = load(
        settings.plan.model or DEFAULT_MODEL,
        pooling=plan.model.pooling,
        embeddings=plan.model.embeddings is not None,
    )
    return plan, with_documents(model, Index.load(documents)) if documents else model, folder


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
