"""`tacita keygen`: the client's secret key and exactly the evaluation keys of the plan."""

from __future__ import annotations

from tacita.api import Client
from tacita.cli.console import duration, out, progress, shown, size
from tacita.cli.options import MODEL_DEFAULT, WORK_DEFAULT, Insecure, Json, Model, Work
from tacita.cli.steps import opened, step


def run(
    work: Work = WORK_DEFAULT, model: Model = MODEL_DEFAULT, json: Json = None, allow_insecure: Insecure = False
) -> None:
    """Make secret.key (stays here, mode 0600) and evaluation.keys (for the server)."""
    with step("keygen", json) as timed, progress("keygen") as report:
        plan, checkpoint, folder = opened(work, model)
        Client(plan, checkpoint, folder, allow_insecure=allow_insecure).keygen(report)
        timed.fields["bytes"] = {"evaluation_keys": folder.evaluation_keys.stat().st_size}
    written = size(timed.fields["bytes"]["evaluation_keys"])
    made = shown(f"{folder.secret_key}, {folder.evaluation_keys}")
    out.print(f"keygen: {made} ({written}) in {duration(timed.seconds)}", soft_wrap=True)
