"""`tacita accuracy` compares labels, float model and circuit on a labelled file, of a decoder on a text."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.ask.measure import Input, Journal, Measure, Row, answers_of
from tacita.cli.columns import Line, admitted, beside, read_labelled, read_lines, whole
from tacita.cli.console import INCOMPLETE, duration, reporting, say, several, show_rows, shown
from tacita.cli.estimate import Plot, planned, tell_population
from tacita.cli.options import Json, load_model, model_folder, option, plan_request, taking
from tacita.cli.plot import points
from tacita.cli.report import security_of
from tacita.errors import InputError, nearest
from tacita.planning.calibrate.calibrate import load_texts
from tacita.planning.circuit import exact_names
from tacita.plans.files import write_text
from tacita.plans.plan import Plan
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import peak_memory_gb, require_device
from tacita.resources import threads as all_threads
from tacita.schemes.base import REAL, Place, require_allowed
from tacita.schemes.ciphertexts import parameters
from tacita.settings import Settings
from tacita.texts.embed import Text
from tacita.texts.generation import ids_of
from tacita.texts.task import NEXT, REGRESSION, SINGLE_LABEL, require_kind
from tacita.texts.task import TaskModel as Model
from tacita.two_party.plan.plan import TwoPartyPlan

Data = Annotated[
    Path,
    typer.Option(
        "--data",
        help="A .tsv file: header, then sentence or two or an image's file, label number; tabs between. Of a "
        "decoder any text.",
    ),
]
SHARES = ("accuracy", "reference_accuracy", "top3", "reference_top3", "agreement")
ENTROPIES = ("cross_entropy", "reference_cross_entropy", "perplexity", "reference_perplexity")
SCORES = (
    *("f1", "reference_f1", "macro_f1", "reference_macro_f1", "matthews", "reference_matthews"),
    *("correlation", "reference_correlation", "correlation_with_reference"),
    *ENTROPIES,
)
Array = npt.NDArray[np.float64]
Limit = Annotated[int, typer.Option("--limit", help="Stop after so many inputs (0: all).", min=0)]
Processes = Annotated[
    int,
    option(
        "--processes",
        help="Share the inputs among so many (default: one a core in the clear, one that encrypts).",
        min=0,
    ),
]
Exact = Annotated[
    str,
    option(
        "--exact",
        help="Functions that are computed exactly, the others by their approximations: softmax,norm,gelu (an "
        "ablation, on plain and sim).",
        metavar="NAMES",
    ),
]


@taking(
    {
        "plan": ("model", "pooling", "scheme", "packing", "tokens", "preset", "texts"),
        "run": ("backend", "threads", "device", "work", "allow_insecure"),
    },
    {"plan": ("functions", "inputs", "objective", "prices", "link"), "run": ("memory",)},
)
def run(
    data: Data,
    settings: Settings,
    limit: Limit = 0,
    processes: Processes = 0,
    exact: Exact = "",
    plot: Plot = None,
    json: Json = None,
) -> None:
    """Measure accuracy, agreement with the float model and the error of the logits; of a decoder perplexity.

    Lines that are malformed or over the limit are named and left out; the exit status is then 1. An answer
    that failed its checks is no label, so a wrong one, and has neither error nor entropy. With --json a run
    that was cut off goes on where it stopped, by the rows beside that file.
    """
    run, request = settings.run, plan_request(settings.plan)
    backend = run.backend or "sim"
    clear, connected = backend != REAL and f"--backend {backend}", request.scheme == BUMBLEBEE and BUMBLEBEE
    require_device(run.device, clear, connected)
    options = settings.plan.model_copy(
        update={"model": model_folder(settings.plan.model or api.DEFAULT_MODEL)}
    )
    checkpoint = load_model(options)  # by its folder, for other processes too
    problem, ablation = problem_of(checkpoint.config, backend), exact_of(exact, checkpoint, backend)
    lines, bad = list[Text](), list[Line]()  # of a decoder's text
    if problem == NEXT:
        lines = [line.text for line in whole(data, read_lines(data))]
        inputs = predicted(checkpoint, data, lines, request.tokens, limit)
    else:
        labelled = read_labelled(data, real=problem == REGRESSION)[: limit or None]
        if checkpoint.config.image is not None:
            labelled = beside(labelled, data)
        good, bad = admitted(checkpoint, request.tokens, labelled, data)
        inputs = [Input.of(n, line.label, line.text, checkpoint) for n, line in enumerate(good)]
    texts = [each.text for each in inputs if each.text is not None]
    request = request.calibrated_for(texts)
    require_allowed(request, backend, allow_insecure=run.allow_insecure)
    plan = planned(checkpoint, request)
    tell_population(plan)
    require_device(run.device, isinstance(plan, TwoPartyPlan) and plan.scheme)
    encrypted = backend == REAL
    processes = min(processes or (1 if encrypted else run.threads or all_threads()), len(inputs))
    with nullcontext(run.work) if run.work else tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        how: dict[str, Any] = {"allow_insecure": run.allow_insecure, "device": run.device}
        place = Place(Path(folder), run.threads, run.memory, keep_key=True, **how)
        measure = Measure(plan, options, backend, place, ablation)
        journal = Journal.beside(json, measure.digest(checkpoint))
        rows = journal.rows(inputs)
        there, left = len(rows), [each for each in inputs if each not in rows]
        with answers_of(measure, checkpoint, left, processes) as answers:
            journal.keep(rows, answers, len(left), f"accuracy on {backend}")
    calibrating = set(request.texts or checkpoint.texts or load_texts())
    in_order = [rows[each] for each in inputs]
    figures = {
        **MEASURED.get(problem, summary)(in_order),
        "backend": backend,
        "encrypted": encrypted,
        "exact": list(ablation),
        "processes": processes,
        "resumed": there,
        "tokens": plan.tokens,
        "model": checkpoint.name,
        "plan_hash": plan.hash,
        "scheme": plan.scheme,
        "peak_rss_gb": peak_memory_gb(),
        "parameters": parameters(plan) if isinstance(plan, Plan) and encrypted else None,
        "calibrated_on": sum(text in calibrating for text in texts or lines),
        "rejected": [{"line": line.number, "error": line.problem} for line in bad],
    }
    with reporting(json, figures):
        _show(figures)
    journal.remove()
    if plot is not None:
        write_text(plot, error_chart(in_order, checkpoint.name))
        say(f"drawn: {shown(str(plot))}")
    if bad:
        raise typer.Exit(INCOMPLETE)


def exact_of(names: str, model: Checkpoint, backend: str) -> tuple[str, ...]:
    """Returns the functions of `--exact`, sorted. Raises InputError for one that the model has not, and where
    the run encrypts."""
    known = exact_names(model.config)
    wanted = sorted({name.strip() for name in names.split(",") if name.strip()})
    for name in wanted:
        if name not in known:
            raise InputError(f"--exact {name!r:.60}: no function of this model", hint=nearest(name, known))
    if wanted and backend == REAL:
        raise InputError("--exact: ciphertexts have approximations alone", hint="--backend plain or sim")
    return tuple(wanted)


def predicted(model: Checkpoint, data: Path, lines: Sequence[Text], tokens: int, limit: int) -> list[Input]:
    """Returns an input for each token of a text but the first: what stands before it, at most so many tokens,
    and as its label the token. What the tokenizer puts before a text stands before all of these. Raises
    InputError for a file that holds no two tokens."""
    text = "\n".join(map(str, lines))
    ids, begun = ids_of(model, text, begun=False), ids_of(model, text, begun=True)
    front = ids[: len(ids) - len(begun)]
    if len(begun) < 2:
        raise InputError(f"{data}: holds no two tokens", hint="the second is the first that is predicted")
    most = min(tokens, model.config.positions)
    places = range(len(front) + 1, len(ids))[: limit or None]
    before = [ids[:at] if at <= most else [*front, *ids[at - most + len(front) : at]] for at in places]
    return [
        Input(n, ids[at], None, tuple(row)) for n, (at, row) in enumerate(zip(places, before, strict=True))
    ]


def error_chart(rows: Sequence[Row], name: str) -> str:
    """Draws each answer's error beside how decided the float model is. Below the line an error of half the
    distance between the two largest logits can turn no label."""
    kinds = ("same label", "another label", "with a warning")
    groups: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for row in (row for row in rows if not row.empty):
        first, second = [*sorted(row.reference, reverse=True), 0.0, 0.0][:2]
        same = np.argmax(row.logits) == np.argmax(row.reference)
        kind = "with a warning" if row.warnings else "same label" if same else "another label"
        error = float(np.max(np.abs(np.subtract(row.logits, row.reference))))
        groups[kind].append((first - second, error))
    groups = {f"{kind}: {len(group)}": group for kind, group in groups.items()}
    axes = ("distance of the two largest logits, in the float model", "largest error of a logit")
    words = f"{sum(not row.empty for row in rows)} texts; " + ", ".join(groups) + "."
    return points(f"Errors of {name}", groups, axes, words, [(2.0, 1.0, "half the distance")])


def problem_of(model: Model, backend: str) -> str:
    """Returns a model's problem, of a decoder NEXT. Raises InputError unless the labels of a file can be
    compared with it, and for a decoder on ciphertexts."""
    if model.task == NEXT:
        if backend == REAL:
            raise InputError("accuracy: a decoder on ckks", hint="--backend sim has its noise")
        return NEXT
    require_kind("classify", model)
    if model.problem not in (SINGLE_LABEL, REGRESSION):
        problem = f"accuracy: a model of problem {model.problem}"
        raise InputError(problem, hint=f"it measures {SINGLE_LABEL} and {REGRESSION}")
    return model.problem


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Returns the scores of circuit and float model, how often their labels match, and errors."""
    labels = np.array([row.label for row in rows])
    logits, reference = _logits(rows), np.array([row.reference for row in rows])
    return {
        **scores(logits, labels),
        **{f"reference_{name}": score for name, score in scores(reference, labels).items()},
        **_matches(_labels(logits), _labels(reference)),
        **_errors(rows),
    }


def _logits(rows: Sequence[Row]) -> Array:
    """Returns the circuit's logits, NaN for an answer that failed its checks."""
    return np.array([row.logits if not row.empty else [np.nan] * len(row.logits) for row in rows])


def _labels(logits: Array) -> Array:
    """Returns the numbers of the labels; -1, which is none, for NaN."""
    return np.where(np.isnan(logits).any(axis=1), -1.0, logits.argmax(axis=1))


def _matches(ours: Array, wanted: Array) -> dict[str, Any]:
    matches, count = int(np.sum(ours == wanted)), len(ours)
    return {"agreement": matches / count, "matches": matches, "mismatches": count - matches}


def language(rows: Sequence[Row]) -> dict[str, Any]:
    """Returns how often the likeliest word is right and how often both sides' is the same, and errors; of the
    answers that passed their checks cross entropies in nats a token and perplexities, None without any."""
    sides = {"": _logits(rows), "reference_": np.array([row.reference for row in rows])}
    labels = {side: _labels(words) for side, words in sides.items()}
    figures: dict[str, Any] = {f"{side}accuracy": float(np.mean(each == 0)) for side, each in labels.items()}
    figures |= dict.fromkeys((*ENTROPIES, "cross_entropy_difference")) | _matches(*labels.values())
    if passed := [(row.logits[0], row.reference[0]) for row in rows if not row.empty]:
        ours, wanted = -np.mean(passed, axis=0)
        figures |= zip(ENTROPIES, map(float, (ours, wanted, np.exp(ours), np.exp(wanted))), strict=True)
        figures["cross_entropy_difference"] = float(ours - wanted)
    return figures | _errors(rows)


def scores(logits: Array, labels: Array) -> dict[str, float]:
    """Returns the accuracy, the mean F1 of all labels that occur and Matthews' correlation (0 where one side
    does not vary); of two labels the F1 of label 1 too, of more than three how often the right one is among
    the three largest logits. A row of NaN has no label."""
    names, places = np.unique(np.concatenate([labels, _labels(logits)]), return_inverse=True)
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, tuple(places.reshape(2, -1)), 1.0)
    right, true, answered, total = counts.diagonal(), counts.sum(axis=1), counts.sum(axis=0), len(labels)
    f1, chance = 2.0 * right / (true + answered), true @ answered
    spread = np.sqrt((total**2 - true @ true) * (total**2 - answered @ answered))
    values = {"accuracy": right.sum() / total, "macro_f1": f1[names >= 0].mean()}
    values["matthews"] = (right.sum() * total - chance) / spread if spread else 0.0
    if logits.shape[1] == 2:
        values["f1"] = f1[names == 1].sum()
    if logits.shape[1] > 3:
        three = np.where(np.isnan(logits), -1, np.argsort(-logits, axis=1))[:, :3]
        values["top3"] = (three == labels[:, None]).any(axis=1).mean()
    return {name: float(value) for name, value in values.items()}


def regression(rows: Sequence[Row]) -> dict[str, Any]:
    """Returns Pearson's correlations of the first number of the answers that passed their checks, None where
    one side does not vary, and errors."""
    triples = [(r.logits[0], r.reference[0], r.label) for r in rows if not r.empty]
    predicted, wanted, labels = np.array(triples).reshape(-1, 3).T
    return {
        "correlation": _correlation(predicted, labels),
        "reference_correlation": _correlation(wanted, labels),
        "correlation_with_reference": _correlation(predicted, wanted),
        **_errors(rows),
    }


def _correlation(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float | None:
    return float(np.corrcoef(x, y)[0, 1]) if len(set(x)) > 1 and len(set(y)) > 1 else None


def _errors(rows: Sequence[Row]) -> dict[str, Any]:
    errors = [float(np.abs(np.subtract(r.logits, r.reference)).max()) for r in rows if not r.empty]
    return {
        "sentences": len(rows),
        "max_abs_error": max(errors, default=None),
        "mean_abs_error": float(np.mean(errors)) if errors else None,
        "warnings": sum(row.warnings > 0 for row in rows),
        "empty": len(rows) - len(errors),
        "seconds_per_sentence": float(np.mean([row.seconds for row in rows])),
    }


def _show(figures: dict[str, Any]) -> None:
    rows = dict[str, str]()
    for name in SHARES:
        if name in figures:
            rows[name.replace("_", " ")] = f"{100 * figures[name]:.2f} %"
    if "mismatches" in figures:
        rows["agreement"] += f", {figures['matches']} of {figures['sentences']} the same"
    for digits, names in ((4, SCORES), (5, ("max_abs_error", "mean_abs_error"))):
        present = [name for name in names if figures.get(name) is not None]
        rows |= {name.replace("_", " "): f"{figures[name]:.{digits}f}" for name in present}
    warned = f"{figures['sentences']}, {figures['warnings']} with a warning"
    warned += f", {figures['empty']} without an answer" if figures["empty"] else ""
    left_out = f", {several(len(figures['rejected']), 'line')} left out" if figures["rejected"] else ""
    rows["sentences"] = warned + left_out
    them = "of its lines" if "perplexity" in figures else "of them"
    unseen = f"{figures['calibrated_on']} {them}, so not unseen" if figures["calibrated_on"] else "none"
    rows["used to calibrate"] = unseen
    rows["time"] = f"{duration(figures['seconds_per_sentence'])} a sentence"
    rows["security"] = security_of(figures)
    show_rows(rows)


MEASURED = {REGRESSION: regression, NEXT: language}  # of other problems `summary`
