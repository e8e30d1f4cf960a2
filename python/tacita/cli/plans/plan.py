"""`tacita plan` calibrates, places, prices and writes plan.json; `tacita plan show` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita.cli.asked import Asked, asking
from tacita.cli.console import duration, out, shown
from tacita.cli.options import WORK_DEFAULT, Json, Work
from tacita.cli.plans.estimate import show_estimate
from tacita.cli.plans.making import planned, population_line, tell_connection
from tacita.cli.steps.step import step
from tacita.plans.commitment import salt_beside
from tacita.plans.files import Workdir
from tacita.plans.json_fields import to_json
from tacita.plans.options import options_of
from tacita.plans.plan import Plan
from tacita.schemes.base import AnyPlan, load, save
from tacita.schemes.ciphertexts import ciphertext_products, key_switches

WIDEST = 500  # characters of a stage's levels: long plans have many live tensors
app = typer.Typer(help="Make or show the public plan of a run.", invoke_without_command=True)


@app.callback()
@asking()
def run(context: typer.Context, asked: Asked, work: Work = WORK_DEFAULT, json: Json = None) -> None:
    """Calibrate intervals, fit approximations, place levels and bootstraps; write plan.json."""
    if context.invoked_subcommand is not None:
        return
    path = Workdir(work).plan
    with step("plan", json) as timed:
        plan = planned(asked.load(), replace(asked.request, salt=salt_beside(path)))
        save(plan, path)
        timed.fields |= {"plan_hash": plan.hash, "scheme": plan.scheme, **_figures(plan)}
    texts_in = f" for a batch of {plan.batch}" if plan.batch > 1 else ""
    should = f"evaluate should take {duration(plan.predicted_seconds())}{texts_in}"
    written = f"{shown(str(path))} ({plan.hash[:12]}) in {duration(timed.seconds)}"
    out.print(f"plan: {written}; {should}", soft_wrap=True)
    tell_connection(plan)
    _tell_population(plan)


def _figures(plan: AnyPlan) -> dict[str, Any]:
    """Returns the fields that a report has only for a plan of ciphertexts."""
    if not isinstance(plan, Plan):
        return {}
    options = [option.name for option in options_of(plan)]
    return {"bootstraps": plan.bootstraps, "population": to_json(plan.population), "options": options}


def _tell_population(plan: AnyPlan) -> None:
    for line in population_line(plan) if isinstance(plan, Plan) else ():
        out.print(line, soft_wrap=True)


@app.command("show")
def show(path: Annotated[Path, typer.Argument(help="A plan file.")] = WORK_DEFAULT / "plan.json") -> None:
    """Print stages, levels, counts and predictions of a plan."""
    plan = load(path)
    packed = f" in {plan.packing}" if isinstance(plan, Plan) else ""
    shape = f"{plan.tokens} tokens, scheme {plan.scheme}{packed}, {plan.batch} texts a request"
    if isinstance(plan, Plan):
        shape += "".join(f"; {option.describe(plan)}" for option in options_of(plan))
    out.print(f"plan {plan.hash[:12]}: {shown(plan.name)}, {shape}", soft_wrap=True)
    for line in _stages(plan) if isinstance(plan, Plan) else ():
        out.print(line, soft_wrap=True)
    show_estimate(plan)
    _tell_population(plan)


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
