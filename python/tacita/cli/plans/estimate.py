"""`tacita estimate`: time, memory, bytes, error and security of a plan, stage by stage, without running
it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import ceil
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacita.cli.console import duration, out, reporting, several, shown, size
from tacita.cli.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    TOKENS_DEFAULT,
    VARIANT_DEFAULT,
    Goal,
    Inputs,
    Json,
    Model,
    Packing,
    Pooling,
    Preset,
    Prices,
    SchemeName,
    Texts,
    Tokens,
    Variant,
    load_model,
    read_prices,
    read_texts,
)
from tacita.cli.plans import two_party_estimate as estimate_two_party
from tacita.cli.plans.making import planned
from tacita.cli.report import parameters, security_line
from tacita.cli.steps.evaluate import Memory
from tacita.plans.plan import PlacedStage, Plan
from tacita.run.resources import GB, available_memory
from tacita.server.budget import predicted_spill
from tacita.server.session import MEMORY_GB

PlanFile = Annotated[
    Path | None, typer.Option("--plan", help="An existing plan; without it one is made.", show_default=False)
]


class EstimatedScheme(StrEnum):
    """Those that run on ciphertexts, and the one of two parties."""

    auto = "auto"
    thor = "thor"
    arion = "arion"
    moai = "moai"
    bumblebee = "bumblebee"


AnyScheme = Annotated[
    EstimatedScheme | None,
    typer.Option("--scheme", help="Packing and circuit; bumblebee: two parties.", show_default=False),
]
KEY_SWITCHES = ("rotate", "rotate_shared", "rotate_hoisted", "conjugate", "relin", "mul")


@dataclass(frozen=True)
class StageEstimate:
    """What a stage should cost. seconds: bootstraps included. products: of ciphertexts. bytes: of the
    ciphertexts alive at its peak; spill_bytes: what of these is beyond the memory limit."""

    name: str
    seconds: float
    seconds_per_input: float
    bootstraps: int
    key_switches: int
    products: int
    bytes: int
    spill_bytes: int


def run(
    plan: PlanFile = None,
    model: Model = MODEL_DEFAULT,
    pooling: Pooling = None,
    scheme: AnyScheme = None,
    packing: Packing = None,
    inputs: Inputs = None,
    objective: Goal = None,
    tokens: Tokens = TOKENS_DEFAULT,
    preset: Preset = PRESET_DEFAULT,
    functions: Variant = VARIANT_DEFAULT,
    texts: Texts = None,
    prices: Prices = None,
    memory: Memory = MEMORY_GB,
    json: Json = None,
) -> None:
    """Say what a run would cost."""
    if scheme is EstimatedScheme.bumblebee and plan is None:
        return estimate_two_party.run(load_model(model, pooling), tokens, read_texts(texts), inputs, json)
    if plan is not None:
        found = Plan.load(plan)
    else:
        found = planned(
            load_model(model, pooling),
            tokens=tokens,
            preset=preset,
            functions=functions,
            scheme=SchemeName(scheme.value) if scheme else None,
            packing=packing,
            inputs=inputs,
            objective=objective,
            texts=read_texts(texts),
            prices=read_prices(prices),
        )
    with reporting(json, estimate(found, inputs, memory)):
        show_stages(found, memory)
        show_estimate(found, inputs, memory)


def estimate(plan: Plan, inputs: int | None = None, memory: float = MEMORY_GB) -> dict[str, Any]:
    """The estimate's JSON fields. inputs: texts to classify (default: one request full). memory: the server's
    limit, GB."""
    count = inputs or plan.batch
    requests = ceil(count / plan.batch)
    seconds = plan.prediction.seconds["evaluate"] * requests
    return {
        "model": plan.model.name,
        "scheme": plan.scheme,
        "packing": plan.packing,
        "tokens": plan.tokens,
        "texts_per_request": plan.batch,
        "lanes": plan.lanes,
        "inputs": count,
        "requests": requests,
        "wall_seconds": seconds,
        "seconds_per_input": seconds / count,
        "seconds": dict(plan.prediction.seconds),
        "stages": [asdict(stage) for stage in stage_estimates(plan, memory)],
        "stage_seconds": {s.name: t for s, t in zip(plan.stages, plan.prediction.stage_seconds, strict=True)},
        "stage_bytes": {s.name: n for s, n in zip(plan.stages, plan.prediction.stage_bytes, strict=True)},
        "bytes": dict(plan.prediction.bytes),
        "bootstraps": plan.bootstraps,
        "key_switches": sum(key_switches(stage) for stage in plan.stages),
        "rotation_keys": len(plan.rotations),
        "max_abs_error": plan.prediction.max_abs_error,
        "parameters": parameters(plan),
        "machine": plan.prediction.machine,
        "threads": plan.prediction.threads,
        "memory_limit_gb": memory,
        "spill_gb": predicted_spill(plan, _room(plan, memory)) / GB,
        "too_large": too_large(plan, memory),
    }


def stage_estimates(plan: Plan, memory: float = MEMORY_GB) -> Iterator[StageEstimate]:
    """One for each stage of the plan, in its order."""
    p = plan.prediction
    room = _room(plan, memory)
    for stage, seconds, alive in zip(plan.stages, p.stage_seconds, p.stage_bytes, strict=True):
        yield StageEstimate(
            name=stage.name,
            seconds=seconds,
            seconds_per_input=seconds / plan.batch,
            bootstraps=len(stage.kinds),
            key_switches=key_switches(stage),
            products=ciphertext_products(stage),
            bytes=alive,
            spill_bytes=max(0, alive - room),
        )


def key_switches(placed: PlacedStage) -> int:
    """Rotations, conjugations, relinearisations of a stage, bootstraps excepted."""
    return sum(placed.counts.get(op, 0) for op in KEY_SWITCHES)


def ciphertext_products(placed: PlacedStage) -> int:
    """Products of two ciphertexts of a stage, relinearised or not."""
    return sum(placed.counts.get(op, 0) for op in ("mul", "tensor", "outer"))


def too_large(plan: Plan, memory: float = MEMORY_GB) -> list[str]:
    """What does not fit: what must be in memory at once against the limit and this machine, stages against
    the limit."""
    free, fixed = available_memory(), _fixed_bytes(plan)
    found = []
    for what, need in (
        ("keys and matrices", fixed),
        ("key generation", plan.prediction.bytes["client_memory"]),
    ):
        limit = memory * GB if free is None else min(free, memory * GB)
        if need > limit:
            found.append(f"{what} need {size(need)}, {size(limit)} may be taken")
    over = [stage for stage in stage_estimates(plan, memory) if stage.spill_bytes]
    if over:
        worst = max(over, key=lambda stage: stage.spill_bytes)
        spilled = f"{size(worst.spill_bytes)} of {size(worst.bytes)} go to disk in {worst.name}"
        found.append(f"{len(over)} of {len(plan.stages)} stages do not fit {memory:g} GB: {spilled}")
    return found


def show_stages(plan: Plan, memory: float = MEMORY_GB) -> None:
    """One line per stage, wide enough for its name."""
    width = max(len(shown(stage.name)) for stage in plan.stages)
    head = (
        f"{'seconds':>9} {'a text':>9} {'bootstraps':>10} {'switches':>8} {'products':>8} {'memory':>9} "
        f"{'spill':>9}"
    )
    out.print(f"{'stage':<{width}} {head}", soft_wrap=True)
    for s in stage_estimates(plan, memory):
        counts = f"{s.bootstraps or '':>10} {s.key_switches or '':>8} {s.products or '':>8}"
        places = f"{size(s.bytes):>9} {size(s.spill_bytes) if s.spill_bytes else '':>9}"
        line = f"{shown(s.name):<{width}} {s.seconds:>9.2f} {s.seconds_per_input:>9.4f} {counts} {places}"
        out.print(line.rstrip(), soft_wrap=True)


def show_estimate(plan: Plan, inputs: int | None = None, memory: float = MEMORY_GB) -> None:
    """The estimate of a whole run as a table."""
    p, found = plan.prediction, estimate(plan, inputs, memory)
    table = Table(show_header=False, box=None)
    table.add_row("machine", f"{shown(p.machine)}, {p.threads} threads")
    request = f"{several(plan.batch, 'text')} of up to {plan.tokens} tokens a request"
    table.add_row("scheme", f"{plan.scheme} in {plan.packing}, {request}")
    for step, seconds in p.seconds.items():
        table.add_row(shown(step), duration(seconds))
    counts = f"{several(found['inputs'], 'text')} in {several(found['requests'], 'request')}"
    texts = f"{counts}, {found['seconds_per_input']:.2f} s a text"
    table.add_row("all texts", f"{duration(found['wall_seconds'])}: {texts}")
    for name, count in p.bytes.items():
        table.add_row(shown(name.replace("_", " ")), size(count))
    table.add_row(
        "disk for spilled ciphertexts", f"{found['spill_gb']:.2f} GB at most, within {memory:g} GB of memory"
    )
    table.add_row("rotation keys", str(len(plan.rotations)))
    table.add_row("bootstraps", str(plan.bootstraps))
    table.add_row("error of the logits", f"{p.max_abs_error:.4f}, shown to {plan.decimals} decimals")
    table.add_row("security", security_line(parameters(plan)))
    out.print(table)
    for line in found["too_large"]:
        out.print(f"[yellow]warning:[/yellow] {shown(line)}", soft_wrap=True)


def _room(plan: Plan, memory: float) -> int:
    """Bytes that the memory limit leaves for ciphertexts."""
    return max(0, int(memory * GB) - _fixed_bytes(plan))


def _fixed_bytes(plan: Plan) -> int:
    """Memory beside ciphertexts: keys, bootstrapping matrices, process."""
    return plan.prediction.bytes["server_memory"] - max(plan.prediction.stage_bytes, default=0)
