"""`tacita recheck`: a published run with keys to throw away, checked again by whoever has the model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita import recheck
from tacita.api import unpublished
from tacita.checkpoint import Checkpoint
from tacita.cli.console import MESSAGE, duration, progress, say, shown
from tacita.cli.estimate import planned
from tacita.cli.options import Json, Without, load_model, option, plan_request, taking
from tacita.cli.report import step
from tacita.plans.plan import Plan
from tacita.settings import Settings

PLANNING = ("model", "scheme", "tokens", "preset")
LIMITS = ("threads", "device", "memory", "allow_insecure")
Record = Annotated[
    str | None, option("--record", help="Run this text and write the folder, with its secret key.")
]


MADE = Without(
    PLANNING[1:], lambda _, others: others["text"] is None, "without --record: the folder has a plan"
)


@taking({"plan": PLANNING, "run": LIMITS}, None, MADE)
def run(
    settings: Settings,
    folder: Annotated[Path, typer.Argument(help="The folder of a published run.")],
    text: Record = None,
    json: Json = None,
) -> None:
    """Check a published run again: its files, its request, its response, and the evaluation itself, with new
    evaluation keys of the secret key that was published with it."""
    limits = settings.run
    how: dict[str, Any] = {name: getattr(limits, name) for name in LIMITS}
    checkpoint = load_model(settings.plan)
    with step("recheck", json) as timed:
        if text is not None:
            timed.fields["label"] = _record(settings, folder, checkpoint, text, how)
        timed.fields["checks"] = []
        with progress("recheck") as report:
            for check in recheck.recheck(folder, checkpoint, report=report, **how):
                timed.fields["checks"].append(asdict(check))
                say(f"ok    {check.name}: {shown(check.detail, MESSAGE)}")
    say(f"recheck: {shown(str(folder))} is what it says, in {duration(timed.seconds)}")


def _record(
    settings: Settings, folder: Path, model: Checkpoint, text: str, how: dict[str, Any]
) -> str | None:
    plan = planned(model, plan_request(settings.plan))
    if not isinstance(plan, Plan):
        raise unpublished(plan.scheme)
    with progress("record") as report:
        return recheck.record(folder, plan, model, text, report=report, **how).label
