"""`tacita evaluate`: the server's step, from request.ct to response.ct without a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacita.api import Server
from tacita.cli.console import MESSAGE, duration, err, out, progress, shown, size
from tacita.cli.options import MODEL_DEFAULT, WORK_DEFAULT, Documents, Insecure, Json, Model, Threads, Work
from tacita.cli.steps.standing import ask, stay
from tacita.cli.steps.step import StageTimes, figures_of, forecast_text, opened, step
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.evaluate.standing import Standing
from tacita.plans.files import Workdir

Memory = Annotated[
    float,
    typer.Option("--memory", help="GB to stay within; ciphertexts that do not fit wait on disk.", min=0.1),
]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on where a killed run stood, and leave such points.")
]
Listen = Annotated[
    Path | None,
    typer.Option(
        "--listen",
        help="Stay, and answer requests of folders below --requests, asked for at this socket.",
        show_default=False,
    ),
]
Connect = Annotated[
    Path | None,
    typer.Option(
        "--connect",
        help="Have the request answered by the server that stays at this socket.",
        show_default=False,
    ),
]
Requests = Annotated[
    Path | None,
    typer.Option(
        "--requests",
        help="With --listen: folder below which requests may lie (default: --work).",
        show_default=False,
    ),
]
Waiting = Annotated[
    int,
    typer.Option(
        "--waiting", help="With --listen: requests that may wait; more are refused.", min=1, max=1000
    ),
]


def run(
    work: Work = WORK_DEFAULT,
    model: Model = MODEL_DEFAULT,
    documents: Documents = None,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    resume: Resume = True,
    listen: Listen = None,
    connect: Connect = None,
    requests: Requests = None,
    waiting: Waiting = 4,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Run the model on the ciphertexts."""
    _require_one_role(listen, connect, requests)
    if connect is not None and documents is not None:
        raise InputError("--connect with --documents", hint="the server that stays was started with its own")
    if connect is not None:
        ask(connect, Workdir(work), json)
        return
    if listen is not None:
        plan, checkpoint, _ = opened(work, model, documents)
        root = work if requests is None else requests
        options: dict[str, Any] = {"threads": threads, "memory": memory, "resume": resume}
        standing = Standing(plan, checkpoint, root, allow_insecure=allow_insecure, **options)
        stay(standing, listen, waiting)
        return
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


def _require_one_role(listen: Path | None, connect: Path | None, requests: Path | None) -> None:
    if listen is not None and connect is not None:
        raise InputError("evaluate: both --listen and --connect", hint="a process does one of them")
    if requests is not None and listen is None:
        raise InputError(
            "evaluate: --requests without --listen", hint="--work names the folder of one request"
        )


def _notice(line: str) -> None:
    err.print(f"evaluate: {shown(line, MESSAGE)}", soft_wrap=True)
