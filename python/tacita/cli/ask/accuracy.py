"""`tacita accuracy` compares labels, float model and circuit on a labelled file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.columns import Line, admitted, read_labelled
from tacita.cli.console import INCOMPLETE, duration, progress, reporting, say, several, show_rows, shown
from tacita.cli.estimate import Plot, planned
from tacita.cli.options import Json, load_model, model_folder, plan_request, taking
from tacita.cli.plot import points, save
from tacita.cli.report import security_of
from tacita.errors import InputError
from tacita.planning.calibrate.calibrate import load_texts
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.resources import peak_memory_gb
from tacita.resources import threads as all_threads
from tacita.schemes.base import AnyPlan, Place
from tacita.schemes.ciphertexts import parameters
from tacita.schemes.registry import scheme_of
from tacita.settings import PlanOptions, Settings
from tacita.texts.task import REGRESSION, SINGLE_LABEL, require_kind
from tacita.texts.task import TaskModel as Model

Data = Annotated[
    Path,
    typer.Option("--data", help="A .tsv file: header, then sentence or two, label number; tabs between."),
]
SHARES = ("accuracy", "reference_accuracy", "top3", "reference_top3", "agreement")
SCORES = (
    *("f1", "reference_f1", "macro_f1", "reference_macro_f1", "matthews", "reference_matthews"),
    *("correlation", "reference_correlation", "correlation_with_reference"),
)
Limit = Annotated[int, typer.Option("--limit", help="Stop after so many sentences (0: all).", min=0)]


@dataclass(frozen=True)
class Row:
    """A sentence's figures: label number (or number), the float model's logits, the circuit's logits,
    seconds, number of warnings."""

    label: float
    reference: tuple[float, ...]
    logits: tuple[float, ...]
    seconds: float
    warnings: int


@taking(
    {
        "plan": ("model", "pooling", "scheme", "packing", "tokens", "preset", "texts"),
        "run": ("backend", "threads", "work", "allow_insecure"),
    }
)
def run(data: Data, settings: Settings, limit: Limit = 0, plot: Plot = None, json: Json = None) -> None:
    """Measure accuracy, agreement with the float model and the error of the logits.

    Lines that are malformed or over the limit are named and left out; the exit status is then 1.
    """
    run, request = settings.run, plan_request(settings.plan)
    options = settings.plan.model_copy(
        update={"model": model_folder(settings.plan.model or api.DEFAULT_MODEL)}
    )
    backend, checkpoint = run.backend or "sim", load_model(options)  # by its folder, for other processes too
    problem = problem_of(checkpoint.config)
    labelled = read_labelled(data, real=problem == REGRESSION)[: limit or None]
    good, bad = admitted(checkpoint, request.tokens, labelled, data)
    texts = [line.text for line in good]
    request = request.calibrated_for(texts)
    plan = planned(checkpoint, request)
    with nullcontext(run.work) if run.work else tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        place = Place(Path(folder), run.threads, allow_insecure=run.allow_insecure, keep_key=True)
        private = _privately(plan, checkpoint, good, place)
        clear = _in_the_clear(plan, options, good, backend, run.threads or all_threads())
        with private if backend == "ckks" else clear as answers, progress(f"accuracy on {backend}") as report:
            began, rows = time.monotonic(), list[Row]()
            report(Progress("sentence", 0, len(good), 0.0, 2.0 * len(good)))
            for row in answers:
                rows.append(row)
                spent = time.monotonic() - began
                remaining = spent / len(rows) * (len(good) - len(rows))
                report(Progress("sentence", len(rows), len(good), spent, remaining))
    encrypted = backend == "ckks"
    calibrating = set(request.texts or checkpoint.texts or load_texts())
    figures = {
        **(regression if problem == REGRESSION else summary)(rows),
        "backend": backend,
        "encrypted": encrypted,
        "tokens": plan.tokens,
        "model": checkpoint.name,
        "plan_hash": plan.hash,
        "scheme": plan.scheme,
        "peak_rss_gb": peak_memory_gb(),
        "parameters": parameters(plan) if isinstance(plan, Plan) and encrypted else None,
        "calibrated_on": sum(text in calibrating for text in texts),
        "rejected": [{"line": line.number, "error": line.problem} for line in bad],
    }
    with reporting(json, figures):
        _show(figures)
    if plot is not None:
        save(plot, error_chart(rows, checkpoint.name))
        say(f"drawn: {shown(str(plot))}")
    if bad:
        raise typer.Exit(INCOMPLETE)


def error_chart(rows: Sequence[Row], name: str) -> str:
    """Draws each text's error beside how decided the float model is. Below the line an error of half the
    distance between the two largest logits can turn no label."""
    groups: dict[str, list[tuple[float, float]]] = {
        "same label": [],
        "another label": [],
        "with a warning": [],
    }
    for row in rows:
        first, second = [*sorted(row.reference, reverse=True), 0.0, 0.0][:2]
        same = np.argmax(row.logits) == np.argmax(row.reference)
        kind = "with a warning" if row.warnings else "same label" if same else "another label"
        error = float(np.max(np.abs(np.subtract(row.logits, row.reference))))
        groups[kind].append((first - second, error))
    groups = {f"{kind}: {len(group)}": group for kind, group in groups.items()}
    axes = ("distance of the two largest logits, in the float model", "largest error of a logit")
    words = f"{len(rows)} texts; " + ", ".join(groups) + "."
    return points(f"Errors of {name}", groups, axes, words, [(2.0, 1.0, "half the distance")])


def problem_of(model: Model) -> str:
    """Returns a model's problem. Raises InputError unless the labels of a file can be compared with it."""
    require_kind("classify", model)
    if model.problem not in (SINGLE_LABEL, REGRESSION):
        raise InputError(
            f"accuracy: a model of problem {model.problem}",
            hint=f"it measures {SINGLE_LABEL} and {REGRESSION}",
        )
    return model.problem


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Returns the scores of circuit and float model, how often their labels match, and errors."""
    labels = np.array([row.label for row in rows])
    logits, reference = np.array([row.logits for row in rows]), np.array([row.reference for row in rows])
    matches = int(np.sum(logits.argmax(axis=1) == reference.argmax(axis=1)))
    return {
        **scores(logits, labels),
        **{f"reference_{name}": score for name, score in scores(reference, labels).items()},
        "agreement": matches / len(rows),
        "matches": matches,
        "mismatches": len(rows) - matches,
        **_errors(rows),
    }


def scores(logits: npt.NDArray[np.float64], labels: npt.NDArray[np.float64]) -> dict[str, float]:
    """Returns the accuracy, the mean F1 of all labels that occur and Matthews' correlation (0 where one side
    does not vary); of two labels the F1 of label 1 too, of more than three how often the right one is among
    the three largest logits."""
    names, places = np.unique(np.concatenate([labels, logits.argmax(axis=1)]), return_inverse=True)
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, tuple(places.reshape(2, -1)), 1.0)
    right, true, answered, total = counts.diagonal(), counts.sum(axis=1), counts.sum(axis=0), len(labels)
    f1, chance = 2.0 * right / (true + answered), true @ answered
    spread = np.sqrt((total**2 - true @ true) * (total**2 - answered @ answered))
    values = {"accuracy": right.sum() / total, "macro_f1": f1.mean()}
    values["matthews"] = (right.sum() * total - chance) / spread if spread else 0.0
    if logits.shape[1] == 2:
        values["f1"] = f1[names == 1].sum()
    if logits.shape[1] > 3:
        values["top3"] = (np.argsort(-logits, axis=1)[:, :3] == labels[:, None]).any(axis=1).mean()
    return {name: float(value) for name, value in values.items()}


def regression(rows: Sequence[Row]) -> dict[str, Any]:
    """Returns Pearson's correlations of the first number, None where one side does not vary, and errors over
    all sentences."""
    predicted, wanted, labels = (
        np.array(each) for each in zip(*((r.logits[0], r.reference[0], r.label) for r in rows), strict=True)
    )
    return {
        "correlation": _correlation(predicted, labels),
        "reference_correlation": _correlation(wanted, labels),
        "correlation_with_reference": _correlation(predicted, wanted),
        **_errors(rows),
    }


def _correlation(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float | None:
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) > 0.0 and np.ptp(y) > 0.0 else None


def _errors(rows: Sequence[Row]) -> dict[str, Any]:
    errors = np.array([np.max(np.abs(np.subtract(row.logits, row.reference))) for row in rows])
    return {
        "sentences": len(rows),
        "max_abs_error": float(errors.max()),
        "mean_abs_error": float(errors.mean()),
        "warnings": sum(row.warnings > 0 for row in rows),
        "seconds_per_sentence": float(np.mean([row.seconds for row in rows])),
    }


def _show(figures: dict[str, Any]) -> None:
    rows = dict[str, str]()
    for name in SHARES:
        if name in figures:
            rows[name.replace("_", " ")] = f"{100 * figures[name]:.2f} %"
    if "mismatches" in figures:
        rows["agreement"] += f", {figures['matches']} of {figures['sentences']} the same"
    for name in SCORES:
        if figures.get(name) is not None:
            rows[name.replace("_", " ")] = f"{figures[name]:.4f}"
    for name in ("max_abs_error", "mean_abs_error"):
        rows[name.replace("_", " ")] = f"{figures[name]:.5f}"
    warned = f"{figures['sentences']}, {figures['warnings']} with a warning"
    left_out = f", {several(len(figures['rejected']), 'line')} left out" if figures["rejected"] else ""
    rows["sentences"] = warned + left_out
    unseen = "none" if not figures["calibrated_on"] else f"{figures['calibrated_on']} of them, so not unseen"
    rows["used to calibrate"] = unseen
    rows["time"] = f"{duration(figures['seconds_per_sentence'])} a sentence"
    rows["security"] = security_of(figures)
    show_rows(rows)


def _row(plan: AnyPlan, model: Checkpoint, line: Line, answer: api.Answer, seconds: float) -> Row:
    reference = tuple(float(v) for v in api.reference_logits(plan, model, line.text))
    return Row(line.label, reference, answer.anyway.logits, seconds, len(answer.anyway.warnings))


@contextmanager
def _privately(
    plan: AnyPlan, model: Checkpoint, lines: Sequence[Line], place: Place
) -> Iterator[Iterator[Row]]:
    with scheme_of(plan.scheme).private(plan, model, place) as private:

        def row(line: Line) -> Row:
            (answer,), seconds = private.answer([line.text], "")
            return _row(plan, model, line, answer, sum(seconds.values()))

        yield map(row, lines)


# Many texts on plain or sim: one process a core, each with one thread (`tacita.cli`), so that no
# two share a core.
#
# The seed of sim's noise is the number of the text, and a process takes a text as a whole: answers do not
# depend on how many processes there are.


@contextmanager
def _in_the_clear(
    plan: AnyPlan, model: PlanOptions, lines: Sequence[Line], backend: str, processes: int
) -> Iterator[Iterator[Row]]:
    """Yields rows in the order of the lines, as they come. The processes end with the block."""
    work = partial(_numbered_row, plan, model, backend)
    with ProcessPoolExecutor(min(processes, len(lines)), mp_context=get_context("spawn")) as workers:
        yield workers.map(work, enumerate(lines))


_load_once = lru_cache(maxsize=1)(load_model)  # the model of a process


def _numbered_row(plan: AnyPlan, model: PlanOptions, backend: str, numbered: tuple[int, Line]) -> Row:
    seed, line = numbered
    checkpoint = _load_once(model)
    began = time.monotonic()
    answer = api.classify_locally(plan, checkpoint, line.text, backend=backend, seed=seed)
    return _row(plan, checkpoint, line, answer, time.monotonic() - began)
