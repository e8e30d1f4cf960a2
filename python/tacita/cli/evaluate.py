"""`tacita evaluate`: the server's step, from request.ct to response.ct without a secret."""

from __future__ import annotations

from tacita.api import Server
from tacita.cli.console import duration, out, progress, size
from tacita.cli.options import MODEL_DEFAULT, WORK_DEFAULT, Insecure, Json, Model, Threads, Work
from tacita.cli.steps import opened, step


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
        written = server.evaluate(report).stat().st_size
        timed.fields |= {"bytes": {"response": written}, "threads": server.threads, "bootstraps": plan.bootstraps}
    out.print(f"evaluate: {folder.response} ({size(written)}) in {duration(timed.seconds)}", soft_wrap=True)
