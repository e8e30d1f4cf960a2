"""`python -m bench batch` and `dashformer`: a whole run of many inputs, measured and compared with the float
model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

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
    lines_of,
    read_examples,
)
from bench.runs.dashformer import Converted, Sequences, dashformer_folder, split
from bench.runs.families import divided, short
from bench.runs.harness import REQUEST, Group, Machine, Ran, Sample, ask, cosine, figures, quality
from bench.runs.one import CALIBRATING, ShapeName, of_shape
from bench.runs.stages import ROTATIONS, show_stages, stage_rows
from tacita import api
from tacita.checkpoint import Checkpoint, load
from tacita.cli.console import duration, out, progress, reporting, shown, size
from tacita.cli.options import TOKENS_DEFAULT, Json, load_model, option
from tacita.cli.report import security_of
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.planning.calibrate.calibrate import load_texts
from tacita.planning.calibrate.calibration import Calibration
from tacita.planning.calibrate.excesses import FAR, excesses
from tacita.planning.calibrate.temper import tempered
from tacita.planning.calibrate.walk import Samples, walk
from tacita.planning.request import PlanRequest
from tacita.plans import engine
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.resources import threads as all_threads
from tacita.schemes.ciphertexts import key_switches
from tacita.schemes.prices import prices_here
from tacita.schemes.registry import scheme_of
from tacita.settings import PlanOptions
from tacita.texts.embed import Text, length_of

DASHFORMER_TOKENS = 64  # 50 amino acids, padded to a power of two
ASKED, KNOWN = 256, 300  # of a file of lines: how many are measured by default, and how many calibrate

BatchScheme = Annotated[str, option("--scheme", help="arion or moai (thor: one text a request).")]
Labelled = Annotated[Path | None, option("--texts", help="A .tsv file: text, tab, label number; or lines.")]
Anyway = Annotated[
    bool, option("--anyway", help="Encrypt an input too that can spoil the answers of its request.")
]


@dataclass(frozen=True)
class Outside:
    """An input, by its number from 1, that leaves the plan's intervals; half_widths: from the middle of that
    of the stage where it is furthest out."""

    input: int
    stage: str
    half_widths: float

    def __str__(self) -> str:
        return f"input {self.input} lies {self.half_widths:.2f} half-widths out at {self.stage}"


@dataclass(frozen=True)
class Task:
    """texts or samples to classify, with labels where they are known; calibration: what calibrates the plan,
    as `tacita.plan` takes it; how it is planned. anyway: whether it may be encrypted with an input that can
    spoil a request."""

    model: Checkpoint
    calibration: dict[str, Any]
    tokens: int
    scheme: str
    preset: str
    texts: Sequence[Text] = ()
    labels: Sequence[int] | None = None
    samples: Sequence[Sample] = ()
    anyway: bool = False

    @property
    def inputs(self) -> int:
        """Counts what is classified."""
        return len(self.texts) + len(self.samples)

    def groups(self, size: int) -> list[Group]:
        """Returns the requests, of at most `size` inputs."""
        starts = range(0, self.inputs, size)
        return [Group(self.texts[at : at + size], self.samples[at : at + size]) for at in starts]

    def outside(self, plan: Plan, processes: int) -> list[Outside]:
        """Returns the inputs that leave the plan's intervals in floats, the furthest first. Cost: a forward
        pass an input."""
        calibration = Calibration.from_dict(plan.circuit["calibration"])
        model = tempered(self.model, calibration.temperatures)
        each, count = Samples.of(model, self.tokens, self.texts, self.samples), self.inputs
        rows = calibration.row_estimates
        ranges = walk(model, each.at(range(count)), count, rows=rows, processes=processes)
        stages, far = zip(*excesses(ranges, calibration).items(), strict=True)
        worst = np.argmax(far, axis=0)
        inputs = (Outside(i + 1, stages[at], float(far[at][i])) for i, at in enumerate(worst))
        return sorted((o for o in inputs if o.half_widths > 1.0), key=lambda o: -o.half_widths)

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
    anyway: Anyway = False,
    allow_insecure: Insecure = False,
) -> None:
    """Classify many texts at once; report time per input, accuracy, errors, counts, memory.

    Texts of the file that are longer than the tokens are left out; the others are repeated up to the inputs.
    Without a file every second shipped sentence is measured, and the others alone calibrate; of a file that
    is no .tsv, the last lines, calibrated on the first. A shape answers random hidden states. Of a folder
    with a plan (`tacita plan --work`) that plan is measured, and a killed run of one request goes on there.
    The float model says before whether an input can spoil its request.
    """
    if (layers is not None and shape is None) or (shape is not None and (texts or pooling)):
        raise InputError("bench batch: --layers is of a --shape, which has no --texts and no --pooling")
    if shape is not None:
        of = of_shape(shape, layers, tokens, inputs or CALIBRATING)
        task = Task(of.model, of.calibration, tokens, scheme, preset, samples=of.samples)
    else:
        checkpoint = load_model(PlanOptions(model=model, pooling=pooling))
        task = _of_texts(checkpoint, texts, inputs, tokens, scheme, preset)
    found = _measured(replace(task, anyway=anyway), Machine(backend, threads, memory, allow_insecure, work))
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
    anyway: Anyway = False,
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
    task = Task(checkpoint, by, DASHFORMER_TOKENS, scheme, preset, measured, labels, anyway=anyway)
    found = _measured(task, Machine(backend, threads, memory, allow_insecure, work))
    with reporting(json, found):
        _show(found)


def _of_texts(
    model: Checkpoint, file: Path | None, inputs: int | None, tokens: int, scheme: str, preset: str
) -> Task:
    if file and file.suffix != ".tsv":
        known, asked = divided(list(short(model, lines_of(file), tokens)), inputs or ASKED, KNOWN)
        return Task(model, {"texts": known}, tokens, scheme, preset, asked)
    examples = read_examples(file) if file else [(text, -1) for text in load_texts()[1::2]]
    texts, labels = _repeated([each for each in examples if length_of(model, each[0]) <= tokens], inputs)
    by = {"texts": PlanRequest().calibrated_for(texts).texts if file else load_texts()[::2]}
    return Task(model, by, tokens, scheme, preset, texts, labels if file and model.config.labels else None)


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
    groups, outside = task.groups(plan.batch), task.outside(plan, ran.threads)
    if plan.batch > 1 and machine.encrypts and not task.anyway:
        _refuse_far(outside)
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
        "rotations": sum(stage.counts.get(op, 0) for stage in plan.stages for op in ROTATIONS),
        "key_switches": sum(key_switches(stage) for stage in plan.stages),
        "calibration_texts": int(plan.circuit["calibration"]["samples"]),
        "outside": [vars(each) for each in outside],
        **_compared(ran, task.logits(plan), task.labels),
    }


def _refuse_far(outside: Sequence[Outside]) -> None:
    """Raises InputError for inputs that can spoil the answers of the others in their request."""
    if far := [str(each) for each in outside if each.half_widths > FAR]:
        more = f", and {len(far) - 1} more" if far[1:] else ""
        raise InputError(
            f"bench batch: {far[0]}{more}; beyond {FAR:g} it can spoil every answer of its request",
            hint="plan with more texts like these (tacita plan --texts, --work), or go on with --anyway",
        )


def _compared(ran: Ran, wanted: NDArray[np.float64], labels: Sequence[int] | None) -> dict[str, Any]:
    """refused: how many answers failed their own check. Of the others `quality`, and cosine, cosine_median:
    of their outputs with the float model's, the smallest and the middle one. None when there are none."""
    kept = [i for i, answer in enumerate(ran.answers) if len(answer.logits)]
    refused = {"refused": len(wanted) - len(kept)}
    if not kept:
        names = *quality(wanted, wanted), "cosine", "cosine_median"
        return refused | dict.fromkeys(names)
    logits, floats = ran.logits[kept], wanted[kept]
    alike = [cosine(*pair) for pair in zip(logits, floats, strict=True)]
    least, middle = (float(np.quantile(alike, share)) for share in (0.0, 0.5))
    figures = quality(logits, floats, labels and [labels[i] for i in kept])
    return refused | figures | {"cosine": least, "cosine_median": middle}


def _of_folder(task: Task, machine: Machine) -> Plan | None:
    """Returns the plan that lies in the folder of the run, if one does. Raises InputError for one of another
    request."""
    path = Workdir(machine.work).plan if machine.work else None
    if path is None or not path.is_file():
        return None
    plan = Plan.load(path)
    is_of = (plan.scheme, plan.tokens, plan.parameters.preset)
    if is_of != (wanted := (task.scheme, task.tokens, task.preset)):
        raise InputError(f"bench batch: the folder's plan is of {is_of}, not {wanted}", hint="another --work")
    return plan


def _planned(task: Task) -> Plan:
    if scheme_of(task.scheme).connected:
        raise InputError(f"bench batch: {task.scheme} has no requests", hint="python -m bench two-party")
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
        of = f"keys, request and {found['resumed_stages']} stages, whose seconds count"
        table.add_row("of earlier sittings", of)
    table.add_row("outside of stages", duration(found["outside_seconds"]))
    if found["refused"]:
        table.add_row("refused", f"{found['refused']}: they failed their own check")
    if outside := found["outside"]:
        table.add_row("outside the intervals", f"{len(outside)}: {Outside(**outside[0])}")
    if found["cosine"] is not None:
        table.add_row("cosine", f"{found['cosine']:.6f} at least, median {found['cosine_median']:.6f}")
        errors = f"{found['max_abs_error']:.5f}, {found['max_softmax_error']:.5f}"
        table.add_row("errors: logit, softmax", errors)
    for name in ("bootstraps", "rotations", "key_switches") if found["encrypted"] else ():
        table.add_row(f"{name.replace('_', ' ')} a request", str(found[name]))
    for name, count in found["bytes"].items():
        table.add_row(name.replace("_", " "), size(count))
    table.add_row("peak memory, on disk", f"{found['peak_rss_gb']:.2f} GB, {found['spill_gb']:.2f} GB")
    table.add_row("prices", shown(found["prices"]))
    table.add_row("security", security_of(found))
    out.print(table)
    show_stages("stage, one request", found)
