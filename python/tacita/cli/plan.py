"""`tacita plan` calibrates, places, prices and writes plan.json, `tacita plan show` shows it, and `tacita
publish` makes the folder that clients get; the server's own files stay in its work folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tacita import api
from tacita.api import PlanRequest
from tacita.cli.console import duration, say, shown, size
from tacita.cli.estimate import (
    FILE,
    LINE,
    planned,
    planned_to_publish,
    show_estimate,
    tell_connection,
    tell_population,
)
from tacita.cli.options import (
    PUBLIC_DEFAULT,
    WORK_DEFAULT,
    Json,
    Without,
    load_model,
    option,
    plan_request,
    taking,
)
from tacita.cli.report import step
from tacita.cli.steps import open_plan, work_folder
from tacita.plans.commitment import salt_beside
from tacita.plans.json_fields import to_json
from tacita.plans.options import options_of
from tacita.plans.plan import Plan
from tacita.plans.public_folder import require_own
from tacita.schemes.base import load, save
from tacita.schemes.ciphertexts import ciphertext_products, key_switches
from tacita.settings import Settings

WIDEST = 500  # characters of a stage's levels: long plans have many live tensors
app = typer.Typer(help="Make or show the public plan of a run.", invoke_without_command=True)
Output = Annotated[
    Path, typer.Option("--output", help="Folder to publish: all that a client needs, no weights.")
]
Again = Annotated[bool, option("--planned", help="Publish the plan that --work has, in place of making one.")]


@app.callback()
@taking({"plan": LINE, "run": ("work",)}, {"plan": FILE})
def run(context: typer.Context, settings: Settings, json: Json = None) -> None:
    """Calibrate intervals, fit approximations, place levels and bootstraps; write plan.json."""
    if context.invoked_subcommand is not None:
        return
    path = work_folder(settings).plan
    with step("plan", json) as timed:
        plan = planned(load_model(settings.plan), _request(settings, path))
        save(plan, path)
        timed.fields |= {"plan_hash": plan.hash, "scheme": plan.scheme}
        if isinstance(plan, Plan):
            options = [option.name for option in options_of(plan)]
            population = to_json(plan.population)
            timed.fields |= {"bootstraps": plan.bootstraps, "population": population, "options": options}
    texts_in = f" for a batch of {plan.batch}" if plan.batch > 1 else ""
    should = f"evaluate should take {duration(plan.predicted_seconds())}{texts_in}"
    say(f"plan: {shown(str(path))} ({plan.hash[:12]}) in {duration(timed.seconds)}; {should}")
    tell_connection(plan)
    tell_population(plan)


def _request(settings: Settings, path: Path) -> PlanRequest:
    """Returns the request of a plan, with the salt that lies beside its file."""
    return replace(plan_request(settings.plan), salt=salt_beside(path))


@app.command("show")
def show(path: Annotated[Path, typer.Argument(help="A plan file.")] = WORK_DEFAULT / "plan.json") -> None:
    """Print stages, levels, counts and predictions of a plan."""
    plan = load(path)
    packed = f" in {plan.packing}" if isinstance(plan, Plan) else ""
    shape = f"{plan.tokens} tokens, scheme {plan.scheme}{packed}, {plan.batch} texts a request"
    if isinstance(plan, Plan):
        shape += "".join(f"; {option.describe(plan)}" for option in options_of(plan))
    say(f"plan {plan.hash[:12]}: {shown(plan.name)}, {shape}")
    for line in _stages(plan) if isinstance(plan, Plan) else ():
        say(line)
    show_estimate(plan, api.estimate(plan))
    tell_population(plan)


def _stages(plan: Plan) -> Iterator[str]:
    """Yields one line per stage; counts are key switches (rotations, products, conjugations) and ciphertext
    products."""
    yield f"{'stage':<22} {'bootstraps':<14} {'levels':<40} {'switches':>8} {'products':>8} {'seconds':>8}"
    for placed, seconds in zip(plan.stages, plan.prediction.stage_seconds, strict=True):
        switches, products = key_switches(placed), ciphertext_products(placed)
        refreshed = f"{', '.join(placed.bootstraps)} ({len(placed.kinds)})" if placed.bootstraps else ""
        levels = f"{_levels(placed.levels)} -> {_levels(placed.out_levels)}"
        yield (
            f"{shown(placed.name):<22} {shown(refreshed):<14} {shown(levels, WIDEST):<40} {switches:>8} "
            f"{products:>8} {seconds:>8.2f}"
        )


def _levels(levels: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {level}" for name, level in levels.items())


# `tacita publish`


PLANNED = Without(
    {*LINE} - {"model", "documents"},
    lambda _, others: others["planned_before"],
    "with --planned: that plan is made",
)


@taking(
    {"plan": tuple(name for name in LINE if name != "link"), "run": ("work",)},
    {"plan": (*FILE, "link")},
    PLANNED,
)
def publish(
    settings: Settings,
    output: Output = PUBLIC_DEFAULT,
    planned_before: Again = False,
    json: Json = None,
) -> None:
    """Make a plan and the folder that clients get: plan, tokenizer, embedding, labels. No weights of the
    encoder."""
    work = work_folder(settings)
    require_own(output)
    with step("publish", json) as timed:
        if planned_before:
            plan, checkpoint = open_plan(settings, work)
        else:
            checkpoint = load_model(settings.plan)
            plan = planned_to_publish(checkpoint, _request(settings, work.plan))
            save(plan, work.plan)
        whole = api.publish(plan, checkpoint, output)
        written = sum(path.stat().st_size for path in output.iterdir())
        timed.fields |= {"plan_hash": plan.hash, "public_hash": whole, "scheme": plan.scheme}
        timed.fields["bytes"] = {"public": written}
    what = "plan, tokenizer, embedding" if plan.model.embeddings else "plan"
    say(f"publish: {shown(str(output))} ({what}; {size(written)}) in {duration(timed.seconds)}")
    say(f"sha256 {whole}")
    say(f"for the server alone: {shown(f'{work.plan}, {work.salt}')}")
    tell_population(plan)
