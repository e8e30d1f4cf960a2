"""`tacita publish` makes a plan, and the folder that clients get; the server's own files stay in its work
folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tacita import api
from tacita.api import unpublished
from tacita.checkpoint import Checkpoint
from tacita.cli.asked import Asked, asking
from tacita.cli.console import duration, out, shown, size
from tacita.cli.options import PUBLIC_DEFAULT, WORK_DEFAULT, Json, Work, option
from tacita.cli.plans.making import planned, population_line
from tacita.cli.steps.step import opened, step
from tacita.plans.commitment import salt_beside
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.scheme import BUMBLEBEE
from tacita.schemes.base import save

Output = Annotated[
    Path, typer.Option("--output", help="Folder to publish: all that a client needs, no weights.")
]
Again = Annotated[
    bool,
    option("--planned", help="Publish the plan that --work has, in place of making one."),
]


@asking()
def run(
    asked: Asked,
    output: Output = PUBLIC_DEFAULT,
    work: Work = WORK_DEFAULT,
    planned_before: Again = False,
    json: Json = None,
) -> None:
    """Make a plan and the folder that clients get: plan, tokenizer, embedding, labels. No weights of the
    encoder."""
    with step("publish", json) as timed:
        if planned_before:
            plan, checkpoint, _ = opened(work, asked.folder, asked.documents)
        else:
            plan, checkpoint = _make(asked, Workdir(work).plan)
        whole = api.publish(plan, checkpoint, output)
        timed.fields |= {"plan_hash": plan.hash, "public_hash": whole, "scheme": plan.scheme}
        timed.fields["bytes"] = {"public": sum(path.stat().st_size for path in output.iterdir())}
    _tell(plan, output, Workdir(work), whole, timed.seconds)


def _make(asked: Asked, path: Path) -> tuple[Plan, Checkpoint]:
    """Makes a plan that can be published, and writes its file. Raises InputError for one of two parties."""
    if asked.request.scheme == BUMBLEBEE:
        raise unpublished(BUMBLEBEE)
    checkpoint = asked.load()
    plan = planned(checkpoint, replace(asked.request, salt=salt_beside(path)))
    if not isinstance(plan, Plan):
        raise unpublished(plan.scheme)
    save(plan, path)
    return plan, checkpoint


def _tell(plan: Plan, output: Path, work: Workdir, whole: str, seconds: float) -> None:
    written = size(sum(path.stat().st_size for path in output.iterdir()))
    what = "plan, tokenizer, embedding" if plan.model.embeddings else "plan"
    out.print(f"publish: {shown(str(output))} ({what}; {written}) in {duration(seconds)}", soft_wrap=True)
    out.print(f"sha256 {whole}", soft_wrap=True)
    out.print(f"for the server alone: {shown(f'{work.plan}, {work.salt}')}", soft_wrap=True)
    for line in population_line(plan):
        out.print(line, soft_wrap=True)
