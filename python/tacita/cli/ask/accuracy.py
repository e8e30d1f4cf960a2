"""`tacita accuracy`: labels, float model and circuit side by side on a labelled file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.ask.in_the_clear import Answered, answered_locally
from tacita.cli.ask.labelled import Labelled, fitted, read_labelled
from tacita.cli.ask.lines import report_problems
from tacita.cli.console import duration, out, progress, reporting, several
from tacita.cli.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    TOKENS_DEFAULT,
    BackendName,
    Insecure,
    Json,
    Model,
    Pooling,
    Preset,
    Texts,
    Threads,
    Tokens,
    load_model,
    read_texts,
)
from tacita.cli.report import parameters, security_of
from tacita.cli.steps.decrypt import UNTRUSTED
from tacita.plans.plan import Plan
from tacita.protocol.files import Workdir
from tacita.run.executor import Progress
from tacita.run.resources import peak_memory_gb
from tacita.run.resources import threads as all_threads

Data = Annotated[Path, typer.Option("--data", help="A .tsv file: header, then sentence, tab, label number.")]
Limit = Annotated[int, typer.Option("--limit", help="Stop after so many sentences (0: all).", min=0)]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--work", help="Keep the keys here, or use those that are here (ckks only).", show_default=False
    ),
]


@dataclass(frozen=True)
class Row:
    """One sentence: label number, the float model's logits, the circuit's logits, seconds, number of
    warnings."""

    label: int
    reference: tuple[float, ...]
    logits: tuple[float, ...]
    seconds: float
    warnings: int


def run(
    data: Data,
    backend: Annotated[
        BackendName, typer.Option("--backend", help="plain and sim encrypt nothing.")
    ] = BackendName.sim,
    limit: Limit = 0,
    model: Model = MODEL_DEFAULT,
    pooling: Pooling = None,
    tokens: Tokens = TOKENS_DEFAULT,
    preset: Preset = PRESET_DEFAULT,
    calibration: Texts = None,
    threads: Threads = 0,
    work: Keep = None,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Measure accuracy, agreement with the float model and the error of the logits.

    Lines that are malformed or over the limit are named and left out; the exit status is then 1.
    """
    checkpoint = load_model(model, pooling)
    examples = fitted(checkpoint, read_labelled(data)[: limit or None], tokens)
    spoiled = report_problems(data, [example.line for example in examples])
    if not (good := [example for example in examples if not example.line.problem]):
        raise typer.Exit(UNTRUSTED)
    with progress("plan") as report:
        plan = api.plan(
            checkpoint, tokens=tokens, preset=preset, texts=read_texts(calibration), progress=report
        )
    with (
        nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-") as folder,
        ExitStack() as stack,
    ):
        texts = [example.line.text for example in good]
        if backend is BackendName.ckks:
            answers = _encrypted(plan, checkpoint, texts, Path(folder), threads, allow_insecure)
        else:
            processes = threads or all_threads()
            local = answered_locally(plan, model, texts, backend=backend.value, processes=processes)
            answers = stack.enter_context(local)
        with progress(f"accuracy on {backend.value}") as report:
            rows = _rows(good, answers, report)
    encrypted = backend is BackendName.ckks
    figures = {**summary(rows), "backend": backend.value, "encrypted": encrypted, "tokens": tokens}
    figures |= {"model": checkpoint.name, "plan_hash": plan.hash, "peak_rss_gb": peak_memory_gb()}
    figures["parameters"] = parameters(plan) if encrypted else None
    bad = [example.line for example in examples if example.line.problem]
    figures["rejected"] = [{"line": line.number, "error": line.problem} for line in bad]
    with reporting(json, figures):
        _show(figures)
    if spoiled:
        raise typer.Exit(UNTRUSTED)


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Shares and errors over all sentences."""
    found = np.array([np.argmax(row.logits) for row in rows])
    wanted = np.array([np.argmax(row.reference) for row in rows])
    labels = np.array([row.label for row in rows])
    errors = np.array([np.max(np.abs(np.subtract(row.logits, row.reference))) for row in rows])
    return {
        "sentences": len(rows),
        "accuracy": float(np.mean(found == labels)),
        "reference_accuracy": float(np.mean(wanted == labels)),
        "agreement": float(np.mean(found == wanted)),
        "max_abs_error": float(errors.max()),
        "mean_abs_error": float(errors.mean()),
        "warnings": sum(row.warnings > 0 for row in rows),
        "seconds_per_sentence": float(np.mean([row.seconds for row in rows])),
    }


def _encrypted(
    plan: Plan, checkpoint: Checkpoint, texts: Sequence[str], folder: Path, threads: int, allow_insecure: bool
) -> Iterator[Answered]:
    files = Workdir(folder)
    client = api.Client(api.public_of(plan, checkpoint), files, allow_insecure=allow_insecure)
    server = api.Server(plan, checkpoint, files, threads=threads, allow_insecure=allow_insecure)
    if not files.secret_key.exists():
        client.keygen()
    for text in texts:
        began = time.monotonic()
        client.encrypt(text)
        server.evaluate()
        answer, seconds = client.decrypt(), time.monotonic() - began
        yield Answered(answer, api.reference_logits(plan, checkpoint, text), seconds)


def _rows(
    examples: Sequence[Labelled], answers: Iterator[Answered], report: Callable[[Progress], None]
) -> list[Row]:
    began = time.monotonic()
    rows: list[Row] = []
    report(Progress("sentence", 0, len(examples), 0.0, 2.0 * len(examples)))
    for example, found in zip(examples, answers, strict=True):
        reference, answer = tuple(float(v) for v in found.reference), found.answer
        rows.append(Row(example.label, reference, answer.logits, found.seconds, len(answer.warnings)))
        spent = time.monotonic() - began
        left = spent / len(rows) * (len(examples) - len(rows))
        report(Progress("sentence", len(rows), len(examples), spent, left))
    return rows


def _show(figures: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    for name in ("accuracy", "reference_accuracy", "agreement"):
        table.add_row(name.replace("_", " "), f"{100 * figures[name]:.2f} %")
    for name in ("max_abs_error", "mean_abs_error"):
        table.add_row(name.replace("_", " "), f"{figures[name]:.5f}")
    warned = f"{figures['sentences']}, {figures['warnings']} with a warning"
    left_out = f", {several(len(figures['rejected']), 'line')} left out" if figures["rejected"] else ""
    table.add_row("sentences", warned + left_out)
    table.add_row("time", f"{duration(figures['seconds_per_sentence'])} a sentence")
    table.add_row("security", security_of(figures))
    out.print(table)
