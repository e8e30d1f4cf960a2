"""`tacita evaluate`: the server's step, from request.ct to response.ct without a secret."""

from __future__ import annotations

from typing import Annotated

import typer

from tacita.api import Server
from tacita.cli.console import MESSAGE, duration, err, out, progress, shown, size
from tacita.cli.options import MODEL_DEFAULT, WORK_DEFAULT, Documents, Insecure, Json, Model, Threads, Work
from tacita.cli.steps.step import StageTimes, figures_of, forecast_text, opened, step
from tacita.evaluate.session import MEMORY_GB

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
    documents: Documents = None,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    resume: Resume = True,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Run the model on the ciphertexts."""
    with step("evaluate", json) as timed, progress("evaluate") as report:
        plan, checkpoint, folder = opened(work, model, documents)
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
        timed.fields |= figures_of(server) | {"stage_seconds": stages.seconds()}
    out.print(
        f"evaluate: {shown(str(folder.response))} ({size(written)}) in {duration(timed.seconds)}",
        soft_wrap=True,
    )


def _notice(line: str) -> None:
    err.print(f"evaluate: {shown(line, MESSAGE)}", soft_wrap=True)
