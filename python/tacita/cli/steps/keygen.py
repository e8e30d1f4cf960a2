"""`tacita keygen`: the client's secret key and exactly the evaluation keys of the plan."""

from __future__ import annotations

from tacita.cli.console import duration, out, progress, shown, size
from tacita.cli.options import PUBLIC_DEFAULT, WORK_DEFAULT, Insecure, Json, Public, Work
from tacita.cli.steps.step import step
from tacita.client import Client
from tacita.plans.files import Workdir


def run(
    public: Public = PUBLIC_DEFAULT,
    work: Work = WORK_DEFAULT,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Make secret.key (stays here, mode 0600) and evaluation.keys (for the server)."""
    with step("keygen", json) as timed, progress("keygen") as report:
        folder = Workdir(work)
        Client(public, folder, allow_insecure=allow_insecure).keygen(report)
        timed.fields["bytes"] = {"evaluation_keys": folder.evaluation_keys.stat().st_size}
    written = size(timed.fields["bytes"]["evaluation_keys"])
    made = shown(f"{folder.secret_key}, {folder.evaluation_keys}")
    out.print(f"keygen: {made} ({written}) in {duration(timed.seconds)}", soft_wrap=True)
