"""`python -m bench one`: two texts, one after the other, on one server; the second is what a server that
stays takes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from bench.commands.worst import show_worst
from bench.one import Ran, Sample, compared_layers, encrypted, figures, simulated, unrounded
from bench.shapes import SHAPES, random_inputs, shaped_model
from tacita import api
from tacita.checkpoint import Checkpoint, embed
from tacita.cli.console import duration, out, progress, reporting, shown
from tacita.cli.options import (
    PRESET_DEFAULT,
    TOKENS_DEFAULT,
    BackendName,
    Insecure,
    Json,
    Pooling,
    Preset,
    Prices,
    Threads,
    Tokens,
    load_model,
    option,
    read_prices,
    read_texts,
)
from tacita.cli.report import security_of
from tacita.cli.steps.evaluate import Memory
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.packings.lowering import in_slots
from tacita.planning.calibrate.calibrate import texts_for
from tacita.plans import engine
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.resources import threads as processors
from tacita.schemes.prices import prices_here
from tacita.texts.embed import Text, length_of

CALIBRATING, MEASURED = 48, 2  # inputs: random ones of a shape, and how many are timed
SEEDS = 2, 3  # of these

OneModel = Annotated[
    Path | None, typer.Option("--model", help="Hugging Face folder with a tokenizer.", show_default=False)
]
ShapeName = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar=f"[{'|'.join(SHAPES)}]",
        help="Random weights in this shape, with the intervals of a BERT-base, on random hidden states.",
        show_default=False,
    ),
]
Layers = Annotated[
    int | None, typer.Option("--layers", help="Of a shape, the first so many.", min=1, show_default=False)
]
Backend = Annotated[BackendName, typer.Option("--backend", help="plain and sim encrypt nothing.")]
Measuring = Annotated[
    Path | None,
    option(
        "--texts",
        help="Of a model: texts, one a line; every second is measured, the others calibrate (default: the "
        "package's).",
    ),
]
Several = Annotated[int, typer.Option("--inputs", help="Texts, one after the other.", min=2)]
Keep = Annotated[
    Path | None, typer.Option("--work", help="Keep plan, keys and ciphertexts here.", show_default=False)
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
    backend: Backend = BackendName.ckks,
    preset: Preset = PRESET_DEFAULT,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    work: Keep = None,
    prices: Prices = None,
    json: Json = None,
    texts: Measuring = None,
    inputs: Several = MEASURED,
    allow_insecure: Insecure = False,
) -> None:
    """Time one text: the first request of a process and the second, stage by stage beside the estimate.

    A model is measured on shipped sentences (or those of --texts) that do not calibrate it, a shape on random
    hidden states.
    """
    if (model is None) == (shape is None) or (layers is not None and shape is None):
        raise InputError("bench one: a --model or a --shape, --layers with a shape", hint="one of the two")
    if model is None:
        chosen = _of_shape(str(shape), layers, tokens, inputs)
    else:
        loaded = in_slots(load_model(model, pooling))
        chosen = _of_model(loaded, tokens, read_texts(texts) or texts_for(loaded), inputs)
    ran = Ran()
    with progress("plan") as report, ran.timing("plan"):
        options: dict[str, Any] = {"tokens": tokens, "preset": preset, **chosen.calibration}
        paid = read_prices(prices) or prices_here(preset)
        options |= {"prices": paid, "progress": report, "processes": processors()}
        plan = api.plan(chosen.model, scheme="thor", **options)
    assert isinstance(plan, Plan)  # of a scheme with requests
    plan = unrounded(plan)
    with nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        files = Workdir(Path(folder))
        with progress(f"bench {backend.value}") as report:
            if backend is BackendName.ckks:
                engine.require_secure(plan.parameters, allow_insecure=allow_insecure)
                how: dict[str, Any] = {"threads": threads, "memory": memory, "allow_insecure": allow_insecure}
                encrypted(plan, chosen.model, chosen.samples, ran, files, report, **how)
                compared_layers(plan, chosen.model, chosen.samples[0], ran, report)
            else:
                simulated(plan, chosen.model, chosen.samples, ran, backend.value, report)
    found = figures(plan, chosen.model, chosen.samples, ran, backend.value, memory)
    with reporting(json, found):
        _show(found)


def _of_shape(name: str, layers: int | None, tokens: int, inputs: int) -> Measured:
    model = shaped_model(name, layers=layers)
    calibrating, measured = (
        random_inputs(model.config.hidden, tokens, count, seed)
        for count, seed in zip((CALIBRATING, inputs), SEEDS, strict=True)
    )
    return Measured(model, measured, {"hidden_states": calibrating})


def _of_model(model: Checkpoint, tokens: int, texts: Sequence[Text], inputs: int) -> Measured:
    """The first so many that fit of every second text; the others calibrate."""
    fitting = [text for text in texts[1::2] if length_of(model, text) <= tokens]
    if len(fitting) < inputs:
        found = f"{len(fitting)} of {len(texts[1::2])} texts have up to {tokens} tokens"
        raise InputError(f"bench one: {found}, {inputs} wanted", hint="fewer --inputs, more --texts")
    samples = [embed(model, text, tokens) for text in fitting[:inputs]]
    return Measured(model, samples, {"texts": texts[::2]})


def _show(found: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    table.add_row("model", f"{found['model']}, {found['layers']} layers, {found['tokens']} tokens")
    for step, seconds in found["seconds"].items():
        table.add_row(step, duration(seconds))
    table.add_row(
        "of which keys, circuit", ", ".join(duration(found["setup"][n]) for n in ("keys", "circuit"))
    )
    estimate = f"estimate {duration(found['predicted_seconds'])}"
    table.add_row("second request", f"{duration(found['warm']['wall_seconds'])} ({estimate})")
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
    stages = Table("stage, second request", "seconds", "predicted")
    for row in found["stages"]:
        taken = "-" if row["seconds"] is None else f"{row['seconds']:.2f}"
        stages.add_row(row["name"], taken, f"{row['predicted']:.2f}")
    out.print(stages)
    show_worst(found)
