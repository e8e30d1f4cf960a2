"""`python -m bench one`: two texts, one after the other, on one server: what the first request takes, and
what the second, whose keys, matrices and circuit are there, as a server that stays takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.table import Table

from bench.models.shapes import SHAPES, random_inputs, shaped_model
from bench.options import (
    PRESET_DEFAULT,
    Backend,
    Device,
    Insecure,
    Keep,
    Layers,
    Memory,
    Packing,
    Pooling,
    Preset,
    PriceFile,
    Threads,
    Tokens,
    emit,
)
from bench.runs.harness import (
    Group,
    LayerErrors,
    Machine,
    Ran,
    Sample,
    ask,
    cosine,
    figures,
    quality,
    unrounded,
)
from bench.runs.stages import show_stages, stage_rows
from tacita import api
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.cli.console import duration, out, progress, reporting, shown
from tacita.cli.options import TOKENS_DEFAULT, Json, load_model, option, read_prices, read_texts
from tacita.cli.report import security_of
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.packings.executor import prefixes
from tacita.packings.lowering import in_slots
from tacita.planning.calibrate.calibrate import texts_for
from tacita.plans.files import Workdir, require
from tacita.plans.plan import Plan
from tacita.resources import CPU, require_device
from tacita.resources import threads as processors
from tacita.schemes.base import REAL, AnyPlan, save
from tacita.schemes.prices import prices_here
from tacita.schemes.registry import scheme_of
from tacita.settings import PlanOptions
from tacita.texts.embed import Text, length_of

CALIBRATING, MEASURED = 48, 2  # inputs: random ones of a shape, and how many are timed
SEEDS = 2, 3  # of these
PLANNED = "bootstraps", "bytes", "memory_limit_gb", "spill_gb", "too_large"  # of an estimate

OneModel = Annotated[Path | None, option("--model", help="Hugging Face folder with a tokenizer.")]
ShapeName = Annotated[
    str | None,
    option(
        "--shape",
        metavar=f"[{'|'.join(SHAPES)}]",
        help="Random weights in this shape, with the intervals of a BERT-base, on random hidden states.",
    ),
]
Measuring = Annotated[
    Path | None,
    option(
        "--texts",
        help="Of a model: texts, one a line; every second is measured, the others calibrate (default: the "
        "package's).",
    ),
]
Several = Annotated[int, option("--inputs", help="Texts, one after the other.", min=2)]
PlanOnly = Annotated[bool, option("--plan-only", help="Say what the plan takes, keep it in --work.")]
Cached = Annotated[bool, option("--cache", help="A decoder's rows, one a request; the server keeps earlier.")]
Again = Annotated[
    bool,
    option(
        "--planned",
        help="Measure the plan that --work has: of --plan-only, since `tacita plan` calibrates on all texts.",
    ),
]


@dataclass(frozen=True)
class Measured:
    """What is measured, and what its plan is calibrated by: never the same inputs."""

    model: Checkpoint
    samples: list[Sample]
    calibration: dict[str, Any]


def one(
    model: OneModel = None,
    shape: ShapeName = None,
    layers: Layers = None,
    tokens: Tokens = TOKENS_DEFAULT,
    pooling: Pooling = None,
    packing: Packing = None,
    backend: Backend = "ckks",
    preset: Preset = PRESET_DEFAULT,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    work: Keep = None,
    prices: PriceFile = None,
    json: Json = None,
    texts: Measuring = None,
    inputs: Several = MEASURED,
    plan_only: PlanOnly = False,
    cache: Cached = False,
    planned: Again = False,
    allow_insecure: Insecure = False,
    device: Device = CPU,
) -> None:
    """Time one text: the first request of a process and the second, stage by stage beside the estimate.

    A model is measured on shipped sentences (or those of --texts) that do not calibrate it, a shape on random
    hidden states. Of a plan that keeps rows, the first --inputs rows of one text are measured.
    """
    if (model is None) == (shape is None) or (layers if shape is None else pooling) is not None:
        raise InputError("bench one: a --model or a --shape", hint="--layers with a shape, --pooling without")
    if planned and work is None:
        raise InputError("bench one: --planned without --work", hint="the folder of the plan")
    require_device(device, backend != REAL and f"--backend {backend}")
    of_work = Plan.load(require(Workdir(work).plan, "plan")) if planned and work else None
    if of_work:
        tokens, kept = of_work.tokens, bool(of_work.kept)
        if packing not in (None, of_work.packing) or cache not in (False, kept):
            raise InputError(
                f"bench one: --planned, a plan of {of_work.packing}, rows {'' if kept else 'not '}kept",
                hint="leave out --packing and --cache, which the plan says",
            )
    if model is None:
        chosen = of_shape(str(shape), layers, tokens, inputs)
    else:
        loaded = in_slots(load_model(PlanOptions(model=model, pooling=pooling)))
        chosen = _of_model(loaded, tokens, read_texts(texts) or texts_for(loaded), inputs)
    ran = Ran()
    with progress("plan") as report, ran.timing("plan"):
        plan: AnyPlan | None = of_work
        if plan is None:
            options: dict[str, Any] = {"prices": read_prices(prices) or prices_here(preset), "cache": cache}
            options |= {"tokens": tokens, "preset": preset, "processes": processors(), **chosen.calibration}
            plan = api.plan(chosen.model, scheme="thor", packing=packing, progress=report, **options)
    assert isinstance(plan, Plan)  # of a scheme with requests
    if plan_only:
        if work:
            save(plan, Workdir(work).plan)
        costs = scheme_of(plan.scheme).estimate(plan, memory=memory)
        seconds = sum(plan.prediction.stage_seconds)
        return emit({**{name: costs[name] for name in PLANNED}, "predicted_seconds": seconds}, json)
    machine = Machine(backend, threads, memory, allow_insecure, work, device=device)
    try:
        found = _measured(unrounded(plan), chosen, machine, ran)
    finally:
        if planned and work:  # which has the unrounded one now
            save(plan, Workdir(work).plan)
    with reporting(json, found):
        _show(found)


def of_shape(name: str, layers: int | None, tokens: int, inputs: int) -> Measured:
    """A shape with random hidden states, others to calibrate on and to measure."""
    model = shaped_model(name, layers=layers)
    of_each = zip((CALIBRATING, inputs), SEEDS, strict=True)
    calibrating, measured = (random_inputs(model.config.hidden, tokens, *of) for of in of_each)
    return Measured(model, measured, {"hidden_states": calibrating})


def _of_model(model: Checkpoint, tokens: int, texts: Sequence[Text], inputs: int) -> Measured:
    """The first so many that fit of every second text; the others calibrate."""
    fitting = [text for text in texts[1::2] if length_of(model, text) <= tokens]
    if len(fitting) < inputs:
        found = f"{len(fitting)} of {len(texts[1::2])} texts have up to {tokens} tokens"
        raise InputError(f"bench one: {found}, {inputs} wanted", hint="fewer --inputs, more --texts")
    samples = [embed(model, text, tokens) for text in fitting[:inputs]]
    return Measured(model, samples, {"texts": texts[::2]})


def _measured(plan: Plan, chosen: Measured, machine: Machine, ran: Ran) -> dict[str, Any]:
    """The report.

    seconds: plan, keygen and the steps of the first request, as `tacita demo` has them; its evaluate includes
    the server's start and the reading of keys, which `setup` has apart. warm, stages: of the last request,
    beside the estimate of a process that is warm; worst: those furthest off. layer_errors: of each layer's
    output, over its range, on the backend layer_errors_from: of an encrypted run nobody sees them without its
    secret key, which no server has, so that its first input runs on `sim` once more.
    """
    model, samples = chosen.model, chosen.samples
    if plan.kept:
        longest = max(samples, key=lambda sample: float(sample[1].sum()))
        samples = list(prefixes(longest))[: len(samples)]
    with ran.timing("circuit"):
        layers = None if plan.kept else LayerErrors(plan, model)
    groups = [Group(samples=[sample]) for sample in samples]
    ask(plan, model, groups, machine, ran, layers=layers)
    if machine.encrypts and layers:
        ask(plan, model, groups[:1], Machine("sim"), Ran(), layers=layers)
    worst = layers.worst if layers else {}
    wanted = np.array([reference(model, *sample).logits for sample in samples])
    rows = stage_rows(plan, ran.stages[-1], 1, machine.memory, warm=True)
    return {
        **figures(plan, machine, ran, rows, len(samples)),
        "layers": plan.model.layers,
        "seconds": ran.steps(ran.requests[:1]),
        "setup": ran.setup,
        "warm": {"seconds": ran.requests[-1], "wall_seconds": sum(ran.requests[-1].values())},
        "predicted_seconds": sum(row["predicted_seconds"] for row in rows),
        **{name: quality(ran.logits, wanted)[name] for name in ("agreement", "max_abs_error")},
        "range": float(np.ptp(wanted)),
        "cosine": min(cosine(*pair) for pair in zip(ran.logits, wanted, strict=True)),
        "layer_errors": [{"name": name, "error": error} for name, error in worst.items()],
        "layer_errors_from": "sim" if machine.encrypts else machine.backend,
    }


def _show(found: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    table.add_row("model", f"{found['model']}, {found['layers']} layers, {found['tokens']} tokens")
    for step, seconds in found["seconds"].items():
        table.add_row(step, duration(seconds))
    table.add_row("of which circuit, start, keys", ", ".join(map(duration, found["setup"].values())))
    estimate = f"estimate {duration(found['predicted_seconds'])}"
    table.add_row("last request", f"{duration(found['warm']['wall_seconds'])} ({estimate})")
    table.add_row("largest error", f"{found['max_abs_error']:.5f} in a range of {found['range']:.3f}")
    if found["layer_errors"]:
        worst = max(found["layer_errors"], key=lambda row: row["error"])
        where = f"of {worst['name']}'s range, on {found['layer_errors_from']}"
        table.add_row("largest error of a layer", f"{100 * worst['error']:.2f} % {where}")
    table.add_row("same label as float", f"{100 * found['agreement']:.0f} %, cosine {found['cosine']:.6f}")
    table.add_row("peak memory", f"{found['peak_rss_gb']:.2f} GB")
    table.add_row("prices", shown(found["prices"]))
    table.add_row("bootstraps", f"{found['bootstraps']}, on {found['threads']} threads")
    table.add_row("security", security_of(found))
    out.print(table)
    show_stages("stage, last request", found)
