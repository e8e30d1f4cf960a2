"""`tacita estimate`: time, memory, bytes, error and security of a plan, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacita import api
from tacita.cli.console import duration, out, progress, size, write_report
from tacita.cli.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    TOKENS_DEFAULT,
    Json,
    Model,
    Preset,
    Prices,
    Texts,
    Tokens,
    read_prices,
    read_texts,
)
from tacita.cli.report import parameters, security_line
from tacita.plan.plan import Plan
from tacita.plan.resources import available_memory

PlanFile = Annotated[
    Path | None, typer.Option("--plan", help="An existing plan; without it one is made.", show_default=False)
]


def run(
    plan: PlanFile = None,
    model: Model = MODEL_DEFAULT,
    tokens: Tokens = TOKENS_DEFAULT,
    preset: Preset = PRESET_DEFAULT,
    texts: Texts = None,
    prices: Prices = None,
    json: Json = None,
) -> None:
    """Say what a run would cost."""
    if plan is not None:
        found = Plan.load(plan)
    else:
        with progress("plan") as report:
            found = api.plan(
                model,
                tokens=tokens,
                preset=preset,
                texts=read_texts(texts),
                prices=read_prices(prices),
                progress=report,
            )
    show_estimate(found)
    write_report(json, estimate(found))


def estimate(plan: Plan) -> dict[str, Any]:
    """The estimate's JSON fields. too_large: what would not fit this machine's memory."""
    return {
        "model": plan.model.name,
        "tokens": plan.tokens,
        "seconds": dict(plan.prediction.seconds),
        "stage_seconds": {s.name: t for s, t in zip(plan.stages, plan.prediction.stage_seconds, strict=True)},
        "stage_bytes": {s.name: n for s, n in zip(plan.stages, plan.prediction.stage_bytes, strict=True)},
        "bytes": dict(plan.prediction.bytes),
        "bootstraps": plan.bootstraps,
        "rotation_keys": len(plan.rotations),
        "max_abs_error": plan.prediction.max_abs_error,
        "parameters": parameters(plan),
        "machine": plan.prediction.machine,
        "threads": plan.prediction.threads,
        "too_large": too_large(plan),
    }


def too_large(plan: Plan) -> list[str]:
    """Stages, and key generation, whose predicted memory exceeds what this machine has free."""
    free = available_memory()
    if free is None:
        return []
    p = plan.prediction
    fixed = p.bytes["server_memory"] - max(p.stage_bytes)
    stages = zip(plan.stages, p.stage_bytes, strict=True)
    return [s.name for s, need in stages if fixed + need > free] + ["keygen"] * (p.bytes["client_memory"] > free)


def show_estimate(plan: Plan) -> None:
    """The estimate as a table."""
    p = plan.prediction
    table = Table(show_header=False, box=None)
    table.add_row("machine", f"{p.machine}, {p.threads} threads")
    for step, seconds in p.seconds.items():
        table.add_row(step, duration(seconds))
    for name, count in p.bytes.items():
        table.add_row(name.replace("_", " "), size(count))
    table.add_row("rotation keys", str(len(plan.rotations)))
    table.add_row("bootstraps", str(plan.bootstraps))
    table.add_row("error of the logits", f"{p.max_abs_error:.4f}, shown to {plan.decimals} decimals")
    table.add_row("security", security_line(parameters(plan)))
    out.print(table)
    for step in too_large(plan):
        out.print(f"[yellow]warning:[/yellow] {step} does not fit the free memory of this machine", soft_wrap=True)
