"""`tacita evaluate`: the server's step, from request.ct to response.ct without a secret."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tacita.api import Server
from tacita.cli.console import duration, out, progress, size
from tacita.cli.options import MODEL_DEFAULT, WORK_DEFAULT, Insecure, Json, Model, Threads, Work
from tacita.cli.steps import opened, step
from tacita.plan.executor import Progress
from tacita.plan.plan import Plan


def run(
    work: Work = WORK_DEFAULT,
    model: Model = MODEL_DEFAULT,
    threads: Threads = 0,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Run the model on the ciphertexts."""
    with step("evaluate", json) as timed, progress("evaluate") as report:
        plan, checkpoint, folder = opened(work, model)
        server = Server(plan, checkpoint, folder, threads=threads, allow_insecure=allow_insecure)
        stages = StageTimes(report)
        written = server.evaluate(stages).stat().st_size
        timed.fields |= {"bytes": {"response": written}, "threads": server.threads, "bootstraps": plan.bootstraps}
        timed.fields["stage_seconds"] = stages.seconds()
        timed.fields["predicted_stage_seconds"] = predicted_stage_seconds(plan)
    out.print(f"evaluate: {folder.response} ({size(written)}) in {duration(timed.seconds)}", soft_wrap=True)


class StageTimes:
    """Passes progress on and keeps when each stage began, bootstraps included."""

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
