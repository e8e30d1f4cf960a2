"""`python -m bench batch` and `dashformer`: a whole run of many inputs, measured and compared with the float
model."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from bench.batch import StageClock, operation_counts, quality, stage_rows
from bench.commands.dashformer import dashformer_folder
from bench.commands.worst import show_worst
from bench.dashformer import split
from bench.worst import compared
from tacita import api
from tacita.checkpoint import Checkpoint, load
from tacita.cli.ask.columns import read_examples
from tacita.cli.console import duration, out, progress, reporting, shown, size
from tacita.cli.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    TOKENS_DEFAULT,
    BackendName,
    Inputs,
    Insecure,
    Json,
    Model,
    Pooling,
    Preset,
    Threads,
    Tokens,
    load_model,
)
from tacita.cli.report import security_of
from tacita.cli.steps.evaluate import Memory
from tacita.cli.steps.step import usage_fields
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB, Usage
from tacita.planning.calibrate.calibrate import load_texts
from tacita.planning.request import PlanRequest
from tacita.plans import engine
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.resources import peak_memory_gb
from tacita.resources import threads as all_threads
from tacita.schemes.base import save
from tacita.schemes.ciphertext_estimate import parameters
from tacita.schemes.prices import prices_here
from tacita.schemes.registry import scheme_of
from tacita.texts.embed import Text, length_of

DASHFORMER_TOKENS = 64  # 50 amino acids, padded to a power of two

BatchScheme = Annotated[str, typer.Option("--scheme", help="arion or moai (thor: one text a request).")]
Labelled = Annotated[
    Path | None,
    typer.Option(
        "--texts",
        help="A file: header, then text, tab, label number (default: unlabelled).",
        show_default=False,
    ),
]
Sequences = Annotated[
    Path | None,
    typer.Option("--data", help="The published data, or a folder with sequences.tsv.", show_default=False),
]
Converted = Annotated[
    Path | None,
    typer.Option("--model", help="Converted folder (default: made from --data).", show_default=False),
]
Backend = Annotated[BackendName, typer.Option("--backend", help="plain and sim encrypt nothing.")]
Keep = Annotated[
    Path | None, typer.Option("--work", help="Keep plan, keys and ciphertexts here.", show_default=False)
]


@dataclass(frozen=True)
class Task:
    """texts with labels (or None) to classify, those that calibrate the plan (None: the package's), how it is
    planned."""

    model: Checkpoint
    texts: Sequence[Text]
    labels: Sequence[int] | None
    calibration: Sequence[Text] | None
    tokens: int
    scheme: str
    preset: str


@dataclass(frozen=True)
class Machine:
    """How a run is executed; memory in GB."""

    backend: BackendName
    threads: int
    memory: float
    allow_insecure: bool


@dataclass
class Ran:
    """Answers in the order of the texts, seconds by step, stages by the clock, bytes of files, the server's
    usage."""

    answers: list[api.Answer] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    clock: StageClock = field(default_factory=StageClock)
    bytes: dict[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    requests: int = 0

    @contextmanager
    def timing(self, step: str) -> Iterator[None]:
        """Adds the seconds of its body to the step."""
        began = time.monotonic()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - began


def batch(
    scheme: BatchScheme = "arion",
    tokens: Tokens = TOKENS_DEFAULT,
    inputs: Inputs = None,
    model: Model = MODEL_DEFAULT,
    pooling: Pooling = None,
    texts: Labelled = None,
    backend: Backend = BackendName.ckks,
    preset: Preset = PRESET_DEFAULT,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    work: Keep = None,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Classify many texts at once; report time per input, accuracy, errors, counts, memory.

    Texts of the file that are longer than the tokens are left out; the others are repeated up to the inputs.
    Without a file every second shipped sentence is measured, and the others alone calibrate.
    """
    checkpoint = load_model(model, pooling)
    examples = read_examples(texts) if texts else [(text, -1) for text in load_texts()[1::2]]
    fitting = [(text, label) for text, label in examples if length_of(checkpoint, text) <= tokens]
    chosen = _repeated(fitting, inputs)
    labels = [label for _, label in chosen] if texts else None
    calibration = (
        PlanRequest().calibrated_for([text for text, _ in chosen]).texts if texts else load_texts()[::2]
    )
    task = Task(checkpoint, [text for text, _ in chosen], labels, calibration, tokens, scheme, preset)
    figures = _measured(task, Machine(backend, threads, memory, allow_insecure), work)
    with reporting(json, figures):
        _show(figures)


def dashformer(
    model: Converted = None,
    data: Sequences = None,
    inputs: Inputs = None,
    scheme: BatchScheme = "arion",
    backend: Backend = BackendName.ckks,
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
    measured, calibrating = split(examples)
    chosen = _repeated(measured, inputs)
    task = Task(
        checkpoint,
        [text for text, _ in chosen],
        [label for _, label in chosen],
        [text for text, _ in calibrating],
        DASHFORMER_TOKENS,
        scheme,
        preset,
    )
    figures = _measured(task, Machine(backend, threads, memory, allow_insecure), work, softmax=True)
    with reporting(json, figures):
        _show(figures)


def _repeated(examples: Sequence[tuple[Text, int]], count: int | None) -> list[tuple[Text, int]]:
    """`count` examples (default: all), from the beginning again when there are fewer."""
    if not examples:
        raise InputError("bench: the file holds no text", hint="a header line, then text, tab, label number")
    wanted = count or len(examples)
    return [examples[i % len(examples)] for i in range(wanted)]


def _measured(task: Task, machine: Machine, work: Path | None, *, softmax: bool = False) -> dict[str, Any]:
    began = time.monotonic()
    plan = _planned(task)
    seconds = {"plan": time.monotonic() - began}
    if machine.backend is BackendName.ckks:
        engine.require_secure(plan.parameters, allow_insecure=machine.allow_insecure)
    with nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        files = Workdir(Path(folder))
        run = _encrypted if machine.backend is BackendName.ckks else _locally
        ran = run(plan, task, machine, files)
    ran.seconds = {**seconds, **ran.seconds}
    reference = np.array([api.reference_logits(plan, task.model, text) for text in task.texts])
    logits = np.array([answer.anyway.logits for answer in ran.answers])
    figures = _figures(plan, task, machine, ran) | quality(logits, reference, task.labels, softmax=softmax)
    return figures | {"warnings": sum(bool(answer.warnings) for answer in ran.answers)}


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
            inputs=len(task.texts),
            texts=task.calibration,
            prices=prices_here(task.preset),
            progress=report,
        )
    assert isinstance(plan, Plan)  # of a scheme with requests
    return plan


def _encrypted(plan: Plan, task: Task, machine: Machine, files: Workdir) -> Ran:
    """Keygen once; encrypt, evaluate and decrypt for each request, through files."""
    save(plan, files.plan)
    insecure, ran = machine.allow_insecure, Ran()
    public = api.public_of(plan, task.model)
    client = api.Client(public, files, allow_insecure=insecure, one_user=True)
    server = api.Server(
        plan,
        task.model,
        files,
        threads=machine.threads,
        memory=machine.memory,
        allow_insecure=insecure,
        resume=False,
    )
    with progress("keygen") as report, ran.timing("keygen"):
        client.keygen(report)
    for group in _groups(task.texts, plan.batch):
        ran.requests += 1
        with ran.timing("encrypt"):
            client.encrypt_batch(group)
        with progress(f"evaluate request {ran.requests}") as report, ran.timing("evaluate"):
            server.evaluate(_both(ran.clock, report))
        with ran.timing("decrypt"):
            ran.answers += client.decrypt_batch(len(group))
    ran.usage = server.usage
    paths = {"evaluation_keys": files.evaluation_keys, "request": files.request, "response": files.response}
    ran.bytes = {name: path.stat().st_size for name, path in paths.items()}
    return ran


def _locally(plan: Plan, task: Task, machine: Machine, _: Workdir) -> Ran:
    """The same requests on plain or sim."""
    name, ran = machine.backend.value, Ran()
    for group in _groups(task.texts, plan.batch):
        ran.requests += 1
        with progress(f"{name} request {ran.requests}") as report, ran.timing("evaluate"):
            both = _both(ran.clock, report)
            ran.answers += api.classify_batch_locally(
                plan, task.model, group, backend=name, seed=ran.requests, progress=both
            )
    return ran


def _groups(texts: Sequence[Text], size: int) -> list[Sequence[Text]]:
    return [texts[at : at + size] for at in range(0, len(texts), size)]


def _both(
    first: Callable[[Progress], None], second: Callable[[Progress], None]
) -> Callable[[Progress], None]:
    def report(now: Progress) -> None:
        first(now)
        second(now)

    return report


def _figures(plan: Plan, task: Task, machine: Machine, ran: Ran) -> dict[str, Any]:
    """All but the quality of the answers. wall_seconds: encrypt, evaluate and decrypt of all requests."""
    rows = stage_rows(plan, ran.clock.seconds, ran.requests, machine.memory)
    wall = sum(ran.seconds.get(step, 0.0) for step in ("encrypt", "evaluate", "decrypt"))
    return {
        "scheme": task.scheme,
        "backend": machine.backend.value,
        "model": plan.model.name,
        "tokens": plan.tokens,
        "inputs": len(task.texts),
        "requests": ran.requests,
        "texts_per_request": plan.batch,
        "wall_seconds": wall,
        "seconds_per_input": wall / len(task.texts),
        "seconds": ran.seconds,
        "predicted_seconds": dict(plan.prediction.seconds),
        "prices": plan.prediction.machine,
        "stages": rows,
        **compared(rows),
        **operation_counts(plan),
        "bytes": ran.bytes,
        "peak_rss_gb": peak_memory_gb(),
        **usage_fields(ran.usage),
        "encrypted": machine.backend is BackendName.ckks,
        "parameters": parameters(plan) if machine.backend is BackendName.ckks else None,
        "plan_hash": plan.hash,
        "threads": machine.threads or all_threads(),
        "calibration_texts": int(plan.circuit["calibration"]["samples"]),
    }


def _show(figures: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    inputs, requests = figures["inputs"], figures["requests"]
    table.add_row(
        "inputs", f"{inputs} of {figures['tokens']} tokens, {figures['scheme']}, {requests} request(s)"
    )
    table.add_row(
        "time", f"{duration(figures['wall_seconds'])}, {figures['seconds_per_input']:.3f} s an input"
    )
    for name in ("agreement", "accuracy", "reference_accuracy"):
        if figures[name] is not None:
            table.add_row(name.replace("_", " "), f"{100 * figures[name]:.2f} %")
    table.add_row("largest error of a logit", f"{figures['max_abs_error']:.5f}")
    if "max_softmax_error" in figures:
        table.add_row("largest error of a probability", f"{figures['max_softmax_error']:.5f}")
    counts = ("bootstraps", "rotations", "key_switches") if figures["encrypted"] else ()
    for name in counts:
        table.add_row(f"{name.replace('_', ' ')} a request", str(figures[name]))
    for name, count in figures["bytes"].items():
        table.add_row(name.replace("_", " "), size(count))
    table.add_row("peak memory, on disk", f"{figures['peak_rss_gb']:.2f} GB, {figures['spill_gb']:.2f} GB")
    table.add_row("prices", shown(figures["prices"]))
    table.add_row("security", security_of(figures))
    out.print(table)
    slowest = Table("stage, one request", "seconds", "predicted")
    for row in figures["stages"]:
        seconds = "-" if row["seconds"] is None else f"{row['seconds']:.2f}"
        slowest.add_row(shown(row["name"]), seconds, f"{row['predicted_seconds']:.2f}")
    out.print(slowest)
    show_worst(figures)
