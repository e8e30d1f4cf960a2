"""`python -m bench batch` and `dashformer`: a whole run of many inputs, measured and compared with the float
model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from bench.models.shapes import random_inputs, shaped_model
from bench.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    Backend,
    Inputs,
    Insecure,
    Keep,
    Layers,
    Memory,
    Model,
    Pooling,
    Preset,
    Threads,
    Tokens,
    read_examples,
)
from bench.runs.dashformer import Converted, Sequences, dashformer_folder, split
from bench.runs.harness import REQUEST, Group, Machine, Ran, Sample, ask, cosine, figures, quality
from bench.runs.one import CALIBRATING, SEEDS, ShapeName
from bench.runs.stages import operation_counts, show_stages, stage_rows
from tacita import api
from tacita.checkpoint import Checkpoint, load
from tacita.cli.console import duration, out, progress, reporting, shown, size
from tacita.cli.options import TOKENS_DEFAULT, Json, load_model, option
from tacita.cli.report import security_of
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.planning.calibrate.calibrate import load_texts
from tacita.planning.request import PlanRequest
from tacita.plans import engine
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.resources import threads as all_threads
from tacita.schemes.prices import prices_here
from tacita.schemes.registry import scheme_of
from tacita.settings import PlanOptions
from tacita.texts.embed import Text, length_of

DASHFORMER_TOKENS = 64  # 50 amino acids, padded to a power of two

BatchScheme = Annotated[str, option("--scheme", help="arion or moai (thor: one text a request).")]
Labelled = Annotated[
    Path | None, option("--texts", help="A file: header, then text, tab, label number (default: unlabelled).")
]


@dataclass(frozen=True)
class Task:
    """texts or samples to classify, with labels where they are known; calibration: what calibrates the plan,
    as `tacita.plan` takes it; how it is planned."""

    model: Checkpoint
    calibration: dict[str, Any]
    tokens: int
    scheme: str
    preset: str
    texts: Sequence[Text] = ()
    labels: Sequence[int] | None = None
    samples: Sequence[Sample] = ()

    @property
    def inputs(self) -> int:
        """Counts what is classified."""
        return len(self.texts) + len(self.samples)

    def groups(self, size: int) -> list[Group]:
        """Returns the requests, of at most `size` inputs."""
        starts = range(0, self.inputs, size)
        return [Group(self.texts[at : at + size], self.samples[at : at + size]) for at in starts]

    def logits(self, plan: Plan) -> NDArray[np.float64]:
        """Returns the float model's, (inputs, outputs)."""
        states = ({"hidden_states": hidden[mask > 0]} for hidden, mask in self.samples)
        asked: list[dict[str, Any]] = [*({"text": text} for text in self.texts), *states]
        return np.array([api.reference_logits(plan, self.model, **one) for one in asked])


def batch(
    scheme: BatchScheme = "arion",
    tokens: Tokens = TOKENS_DEFAULT,
    inputs: Inputs = None,
    model: Model = MODEL_DEFAULT,
    shape: ShapeName = None,
    layers: Layers = None,
    pooling: Pooling = None,
    texts: Labelled = None,
    backend: Backend = "ckks",
    preset: Preset = PRESET_DEFAULT,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    work: Keep = None,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Classify many texts at once; report time per input, accuracy, errors, counts, memory.

    Texts of the file that are longer than the tokens are left out; the others are repeated up to the inputs.
    Without a file every second shipped sentence is measured, and the others alone calibrate. A shape answers
    random hidden states. Of a folder with a plan (`tacita plan --work`) that plan is measured, and a killed
    run of one request goes on there.
    """
    if (layers is not None and shape is None) or (texts is not None and shape is not None):
        raise InputError("bench batch: --layers is of a --shape, which has no --texts", hint="one of the two")
    if shape is not None:
        task = _of_shape(shape, layers, inputs, tokens, scheme, preset)
    else:
        checkpoint = load_model(PlanOptions(model=model, pooling=pooling))
        examples = read_examples(texts) if texts else [(text, -1) for text in load_texts()[1::2]]
        fitting = [(text, label) for text, label in examples if length_of(checkpoint, text) <= tokens]
        measured, labels = _repeated(fitting, inputs)
        calibrating = PlanRequest().calibrated_for(measured).texts if texts else load_texts()[::2]
        how: dict[str, Any] = {"labels": labels if texts else None, "texts": measured}
        task = Task(checkpoint, {"texts": calibrating}, tokens, scheme, preset, **how)
    found = _measured(task, Machine(backend, threads, memory, allow_insecure, work))
    with reporting(json, found):
        _show(found)


def dashformer(
    model: Converted = None,
    data: Sequences = None,
    inputs: Inputs = None,
    scheme: BatchScheme = "arion",
    backend: Backend = "ckks",
    preset: Preset = PRESET_DEFAULT,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    work: Keep = None,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Classify protein sequences with the DASHformer of iDASH 2024, converted from --data unless --model has
    it.

    The intervals come from sequences 257 to 456 of the file, which are never among those that are measured.
    """
    with dashformer_folder(model, data) as (folder, sequences):
        checkpoint, examples = load(folder), read_examples(sequences)
    among, calibrating = split(examples)
    measured, labels = _repeated(among, inputs)
    by = {"texts": [text for text, _ in calibrating]}
    task = Task(checkpoint, by, DASHFORMER_TOKENS, scheme, preset, measured, labels)
    found = _measured(task, Machine(backend, threads, memory, allow_insecure, work))
    with reporting(json, found):
        _show(found)


def _of_shape(
    name: str, layers: int | None, inputs: int | None, tokens: int, scheme: str, preset: str
) -> Task:
    model = shaped_model(name, layers=layers)
    counts = (CALIBRATING, inputs or CALIBRATING)
    calibrating, measured = (
        random_inputs(model.config.hidden, tokens, count, seed)
        for count, seed in zip(counts, SEEDS, strict=True)
    )
    return Task(model, {"hidden_states": calibrating}, tokens, scheme, preset, samples=measured)


def _repeated(examples: Sequence[tuple[Text, int]], count: int | None) -> tuple[list[Text], list[int]]:
    """Returns `count` texts and labels (default: all), from the beginning again when there are fewer."""
    if not examples:
        raise InputError("bench: the file holds no text", hint="a header line, then text, tab, label number")
    chosen = [examples[i % len(examples)] for i in range(count or len(examples))]
    return [text for text, _ in chosen], [label for _, label in chosen]


def _measured(task: Task, machine: Machine) -> dict[str, Any]:
    """Figures of all requests: wall_seconds of all their steps, outside_seconds of what is of no stage."""
    ran, began = Ran(threads=machine.threads or all_threads()), time.monotonic()
    plan = _of_folder(task, machine) or _planned(task)
    ran.seconds["plan"] = time.monotonic() - began
    if machine.encrypts:
        engine.require_secure(plan.parameters, allow_insecure=machine.allow_insecure)
    groups = task.groups(plan.batch)
    ask(plan, task.model, groups, machine, ran, seed=1)
    stages = sum((Counter(seconds) for seconds in ran.stages), Counter[str]())
    rows = stage_rows(plan, stages, len(groups), machine.memory)
    seconds = ran.steps(ran.requests)
    wall = sum(seconds[step] for step in REQUEST)
    return {
        **figures(plan, machine, ran, rows, task.inputs),
        "requests": len(groups),
        "texts_per_request": plan.batch,
        "wall_seconds": wall,
        "outside_seconds": wall - sum(stages.values()),
        "setup": ran.setup,
        "seconds_per_input": wall / task.inputs,
        "seconds": seconds,
        "predicted_seconds": dict(plan.prediction.seconds),
        **operation_counts(plan),
        "calibration_texts": int(plan.circuit["calibration"]["samples"]),
        **_cosines(ran, wanted := task.logits(plan)),
        **quality(ran.logits, wanted, task.labels),
    }


def _cosines(ran: Ran, wanted: NDArray[np.float64]) -> dict[str, Any]:
    """refused: how many answers failed their own check. cosine, cosine_median: of the others' outputs with
    the float model's, the smallest and the middle one (None when there are none)."""
    pairs = zip(ran.answers, ran.logits, wanted, strict=True)
    found = [cosine(got, row) for answer, got, row in pairs if len(answer.logits)]
    least, middle = (float(np.quantile(found, share)) if found else None for share in (0.0, 0.5))
    return {"refused": len(wanted) - len(found), "cosine": least, "cosine_median": middle}


def _of_folder(task: Task, machine: Machine) -> Plan | None:
    """Returns the plan that lies in the folder of the run, if one does. Raises InputError for one of another
    request."""
    path = Workdir(machine.work).plan if machine.work and machine.encrypts else None
    if path is None or not path.is_file():
        return None
    plan = Plan.load(path)
    is_of = (plan.scheme, plan.tokens, plan.parameters.preset)
    if is_of != (wanted := (task.scheme, task.tokens, task.preset)):
        raise InputError(
            f"bench batch: the folder's plan is of {is_of}, not of {wanted}", hint="another --work"
        )
    return plan


def _planned(task: Task) -> Plan:
    if scheme_of(task.scheme).connected:
        raise InputError(
            f"bench batch: {task.scheme} has no requests", hint="python -m bench two-party measures it"
        )
    with progress("plan") as report:
        plan = api.plan(
            task.model,
            tokens=task.tokens,
            preset=task.preset,
            scheme=task.scheme,
            inputs=task.inputs,
            **task.calibration,
            prices=prices_here(task.preset),
            progress=report,
        )
    assert isinstance(plan, Plan)  # of a scheme with requests
    return plan


def _show(found: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    inputs, asked = found["inputs"], found["requests"]
    table.add_row("inputs", f"{inputs} of {found['tokens']} tokens, {found['scheme']}, {asked} request(s)")
    table.add_row("time", f"{duration(found['wall_seconds'])}, {found['seconds_per_input']:.3f} s an input")
    for name in ("agreement", "accuracy", "reference_accuracy"):
        if found[name] is not None:
            table.add_row(name.replace("_", " "), f"{100 * found[name]:.2f} %")
    if found["resumed_stages"]:
        table.add_row("of this sitting", f"keys, request and {found['resumed_stages']} stages are of another")
    table.add_row("outside of stages", duration(found["outside_seconds"]))
    if found["refused"]:
        table.add_row("refused", f"{found['refused']}: they failed their own check")
    if found["cosine"] is not None:
        table.add_row("cosine", f"{found['cosine']:.6f} at least, median {found['cosine_median']:.6f}")
    table.add_row("errors: logit, softmax", f"{found['max_abs_error']:.5f}, {found['max_softmax_error']:.5f}")
    for name in ("bootstraps", "rotations", "key_switches") if found["encrypted"] else ():
        table.add_row(f"{name.replace('_', ' ')} a request", str(found[name]))
    for name, count in found["bytes"].items():
        table.add_row(name.replace("_", " "), size(count))
    table.add_row("peak memory, on disk", f"{found['peak_rss_gb']:.2f} GB, {found['spill_gb']:.2f} GB")
    table.add_row("prices", shown(found["prices"]))
    table.add_row("security", security_of(found))
    out.print(table)
    show_stages("stage, one request", found)
