"""`tacita accuracy`: labels, float model and circuit side by side on a labelled file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from tacita import api
from tacita.checkpoint import Checkpoint, load
from tacita.cli.console import duration, out, progress, write_report
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
from tacita.cli.report import parameters
from tacita.errors import InputError
from tacita.plan.executor import Progress
from tacita.plan.plan import Plan, parse
from tacita.plan.resources import peak_memory_gb
from tacita.plan.resources import threads as all_threads
from tacita.protocol.files import Workdir

Data = Annotated[Path, typer.Option("--data", help="A .tsv file: header, then sentence, tab, label number.")]
Limit = Annotated[int, typer.Option("--limit", help="Stop after so many sentences (0: all).", min=0)]
Keep = Annotated[
    Path | None,
    typer.Option("--work", help="Keep the keys here, or use those that are here (ckks only).", show_default=False),
]


@dataclass(frozen=True)
class Row:
    """One sentence: label number, the float model's logits, the circuit's logits, seconds, number of warnings."""

    label: int
    reference: tuple[float, ...]
    logits: tuple[float, ...]
    seconds: float
    warnings: int


def run(
    data: Data,
    backend: Annotated[BackendName, typer.Option("--backend", help="plain and sim encrypt nothing.")] = BackendName.sim,
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
    """Measure accuracy, agreement with the float model and the error of the logits."""
    examples = read_examples(data)[: limit or None]
    checkpoint = load_model(model, pooling)
    with progress("plan") as report:
        plan = api.plan(checkpoint, tokens=tokens, preset=preset, texts=read_texts(calibration), progress=report)
    with nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-") as folder, ExitStack() as stack:
        texts = [text for text, _ in examples]
        answers = _answers(backend, plan, checkpoint, model, texts, Path(folder), threads, allow_insecure, stack)
        with progress(f"accuracy on {backend.value}") as report:
            rows = _rows(plan, checkpoint, examples, answers, report)
    figures = {**summary(rows), "backend": backend.value, "tokens": tokens, "model": checkpoint.name}
    figures |= {"plan_hash": plan.hash, "parameters": parameters(plan), "peak_rss_gb": peak_memory_gb()}
    _show(figures)
    write_report(json, figures)


def read_examples(path: Path) -> list[tuple[str, int]]:
    """(sentence, label) pairs of a .tsv file. Raises InputError naming the line that is not one."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: cannot be read ({error})", hint="a header line, then sentence, tab, label"
        ) from error
    return [_example(path, number, line) for number, line in enumerate(lines[1:], 2) if line.strip()]


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


def _example(path: Path, number: int, line: str) -> tuple[str, int]:
    sentence, _, label = line.rpartition("\t")
    if not sentence.strip() or not label.strip().isdigit():
        raise InputError(f"{path}:{number}: not a sentence, a tab and a label number", hint="check the file's columns")
    return sentence.strip(), int(label)


def _answers(
    backend: BackendName,
    plan: Plan,
    checkpoint: Checkpoint,
    model: Path,
    texts: Sequence[str],
    folder: Path,
    threads: int,
    allow_insecure: bool,
    stack: ExitStack,
) -> Iterator[tuple[api.Answer, float]]:
    """(answer, seconds) of each text in turn; plain and sim use one process per core, kept alive by `stack`."""
    if backend is BackendName.ckks:
        return _encrypted(plan, checkpoint, texts, folder, threads, allow_insecure)
    local = partial(_locally, plan.to_text(), str(model), backend.value)
    workers = ProcessPoolExecutor(threads or all_threads(), mp_context=get_context("spawn"))
    return iter(stack.enter_context(workers).map(local, enumerate(texts), chunksize=4))


@lru_cache(maxsize=1)
def _opened(plan: str, model: str) -> tuple[Plan, Checkpoint]:
    """Plan and model of a worker process."""
    found = parse(plan, "plan")
    return found, load(model, pooling=found.model.pooling)


def _locally(plan: str, model: str, backend: str, numbered: tuple[int, str]) -> tuple[api.Answer, float]:
    began = time.monotonic()
    found, checkpoint = _opened(plan, model)
    answer = api.classify_locally(found, checkpoint, numbered[1], backend=backend, seed=numbered[0])
    return answer, time.monotonic() - began


def _encrypted(
    plan: Plan, checkpoint: Checkpoint, texts: Sequence[str], folder: Path, threads: int, allow_insecure: bool
) -> Iterator[tuple[api.Answer, float]]:
    files = Workdir(folder)
    client = api.Client(plan, checkpoint, files, allow_insecure=allow_insecure)
    server = api.Server(plan, checkpoint, files, threads=threads, allow_insecure=allow_insecure)
    if not files.secret_key.exists():
        client.keygen()
    for text in texts:
        began = time.monotonic()
        client.encrypt(text)
        server.evaluate()
        yield client.decrypt(), time.monotonic() - began


def _rows(
    plan: Plan,
    checkpoint: Checkpoint,
    examples: Sequence[tuple[str, int]],
    answers: Iterator[tuple[api.Answer, float]],
    report: Callable[[Progress], None],
) -> list[Row]:
    began = time.monotonic()
    rows: list[Row] = []
    report(Progress("sentence", 0, len(examples), 0.0, 2.0 * len(examples)))
    for (text, label), (answer, seconds) in zip(examples, answers, strict=True):
        reference = tuple(float(v) for v in api.reference_logits(plan, checkpoint, text))
        rows.append(Row(label, reference, answer.logits, seconds, len(answer.warnings)))
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
    table.add_row("sentences", f"{figures['sentences']}, {figures['warnings']} with a warning")
    table.add_row("time", f"{duration(figures['seconds_per_sentence'])} a sentence")
    out.print(table)
