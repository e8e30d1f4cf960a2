"""`tacita plan`: calibrate, place, price, write plan.json; `tacita plan show`: read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from tacita.cli.console import duration, out, shown
from tacita.cli.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    TOKENS_DEFAULT,
    VARIANT_DEFAULT,
    WORK_DEFAULT,
    Goal,
    Inputs,
    Json,
    Model,
    Packing,
    Pooling,
    Preset,
    Prices,
    Scheme,
    Texts,
    Tokens,
    Variant,
    Work,
    load_model,
    read_prices,
    read_texts,
)
from tacita.cli.plans.estimate import ciphertext_products, key_switches, show_estimate
from tacita.cli.plans.making import planned
from tacita.cli.plans.population import told
from tacita.cli.steps.step import step
from tacita.plans.commitment import salt_beside
from tacita.plans.plan import Plan
from tacita.plans.typed_json import to_json
from tacita.protocol.files import Workdir
from tacita.protocol.plan_files import save

WIDEST = 500  # characters of a stage's levels: long plans have many live tensors
app = typer.Typer(help="Make or show the public plan of a run.", invoke_without_command=True)


@app.callback()
def run(
    context: typer.Context,
    model: Model = MODEL_DEFAULT,
    pooling: Pooling = None,
    scheme: Scheme = None,
    packing: Packing = None,
    inputs: Inputs = None,
    objective: Goal = None,
    tokens: Tokens = TOKENS_DEFAULT,
    preset: Preset = PRESET_DEFAULT,
    functions: Variant = VARIANT_DEFAULT,
    texts: Texts = None,
    prices: Prices = None,
    work: Work = WORK_DEFAULT,
    json: Json = None,
) -> None:
    """Calibrate intervals, fit approximations, place levels and bootstraps; write plan.json."""
    if context.invoked_subcommand is not None:
        return
    path = Workdir(work).plan
    with step("plan", json) as timed:
        plan = planned(
            load_model(model, pooling),
            tokens=tokens,
            preset=preset,
            functions=functions,
            scheme=scheme,
            packing=packing,
            inputs=inputs,
            objective=objective,
            texts=read_texts(texts),
            prices=read_prices(prices),
            salt=salt_beside(path),
        )
        save(plan, path)
        timed.fields |= {"plan_hash": plan.hash, "bootstraps": plan.bootstraps, "scheme": plan.scheme}
        timed.fields["population"] = to_json(plan.population)
    evaluate = duration(plan.prediction.seconds["evaluate"])
    texts_in = f" for a batch of {plan.batch}" if plan.batch > 1 else ""
    out.print(
        f"plan: {shown(str(path))} ({plan.hash[:12]}) in {duration(timed.seconds)}; evaluate should take "
        f"{evaluate}{texts_in}",
        soft_wrap=True,
    )
    for line in told(plan):
        out.print(line, soft_wrap=True)


@app.command("show")
def show(path: Annotated[Path, typer.Argument(help="A plan file.")] = WORK_DEFAULT / "plan.json") -> None:
    """Print stages, levels, counts and predictions of a plan."""
    plan = Plan.load(path)
    shape = f"{plan.tokens} tokens, scheme {plan.scheme} in {plan.packing}, {plan.batch} texts a request"
    out.print(f"plan {plan.hash[:12]}: {shown(plan.model.name)}, {shape}", soft_wrap=True)
    for line in _stages(plan):
        out.print(line, soft_wrap=True)
    show_estimate(plan)
    for line in told(plan):
        out.print(line, soft_wrap=True)


def _stages(plan: Plan) -> Iterator[str]:
    """One line per stage; counts are key switches (rotations, products, conjugations) and ciphertext
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
