"""`tacita recheck`: a published run with keys to throw away, checked again by whoever has the model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita import recheck
from tacita.cli.console import MESSAGE, duration, progress, say, shown
from tacita.cli.estimate import planned_to_publish
from tacita.cli.options import Json, Without, load_model, option, plan_request, taking
from tacita.cli.report import step
from tacita.cli.steps import open_plan
from tacita.plans.files import Workdir, require
from tacita.resources import require_device
from tacita.schemes.base import REAL, require_allowed
from tacita.settings import PlanOptions, Settings

LINE = {
    "plan": ("model", "scheme", "tokens", "preset"),
    "run": ("threads", "device", "memory", "allow_insecure"),
}
FILE = {"plan": tuple(name for name in PlanOptions.model_fields if name not in LINE["plan"])}
Record = Annotated[
    str | None, option("--record", help="Run this text and write the folder, with its secret key.")
]
MADE = Without(
    LINE["plan"][1:], lambda _, others: others["text"] is None, "without --record: the folder has a plan"
)


@taking(LINE, FILE, MADE)
def run(
    settings: Settings,
    folder: Annotated[Path, typer.Argument(help="The folder of a published run.")],
    text: Record = None,
    json: Json = None,
) -> None:
    """Check a published run again: its files, its request, its response, and the evaluation itself, with new
    evaluation keys of the secret key that was published with it.

    --record makes a plan as `tacita publish` does, of all of [plan].
    """
    how: dict[str, Any] = {name: getattr(settings.run, name) for name in LINE["run"]}
    require_device(settings.run.device)
    with step("recheck", json) as timed:
        if text is None:
            require(Workdir(folder).plan, "recheck --record")
            _, model = open_plan(settings, Workdir(folder))
        else:
            recheck.require_new(folder, text)
            request, model = plan_request(settings.plan), load_model(settings.plan)
            require_allowed(request, REAL, allow_insecure=settings.run.allow_insecure)
            plan = planned_to_publish(model, request)
            with progress("record") as report:
                answer = recheck.record(folder, plan, model, text, report=report, **how)
            timed.fields["label"] = answer.label
        timed.fields["checks"] = []
        with progress("recheck") as report:
            for check in recheck.recheck(folder, model, report=report, **how):
                timed.fields["checks"].append(asdict(check))
                say(f"ok    {check.name}: {shown(check.detail, MESSAGE)}")
    say(f"recheck: {shown(str(folder))} is what it says, in {duration(timed.seconds)}")
