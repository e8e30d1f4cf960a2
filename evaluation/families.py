"""Trained checkpoints beside their float answers: labels or vectors or masked words, error, cost.

    python evaluation/families.py --json F --models DIR/sapiens/vh DIR/rxnfp --inputs 50 --backend sim

A folder's inputs are its `texts.txt` or `reactions.txt`, and without them the package's sentences: the last
`--inputs` are asked, the ones before them calibrate, so that no input is of both. `sim` is scheme thor with
the engine's noise, `fixed` the two parties' integers in one process, `shares` two parties over the loopback.
Prints a table in Markdown; nothing is encrypted but by `shares`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tacita
from tacita import api
from tacita.calibrate.calibrate import load_texts
from tacita.checkpoint import Checkpoint
from tacita.client import Answer
from tacita.errors import TacitaError
from tacita.front.tokens import MASKS
from tacita.models.base import WORDS
from tacita.plans.plan import Plan
from tacita.schemes.base import AnyPlan, Place
from tacita.schemes.registry import scheme_of

FILES = ("texts.txt", "reactions.txt")
SCHEMES = {"sim": "thor", "fixed": "bumblebee", "shares": "bumblebee"}
LENGTHS = (16, 32, 64, 128, 256, 512)
COLUMNS = ("model", "backend", "task", "inputs", "same", "cosine", "error", "predicted", "seconds", "MB")
Array = np.ndarray
Answers = Iterator[Answer]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--models", type=Path, nargs="+", required=True)
    options.add_argument("--inputs", type=int, default=50)
    options.add_argument("--calibration", type=int, default=300)
    options.add_argument("--backend", choices=SCHEMES, default="sim")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    rows = []
    print("|".join(("", *COLUMNS, "")), "|".join(("", *("---" for _ in COLUMNS), "")), sep="\n", flush=True)
    for folder in args.models:
        rows.append(_measured(folder, args.backend, args.inputs, args.calibration))
        print(table_row(rows[-1]), flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=2) + "\n")


def table_row(row: dict[str, Any]) -> str:
    """A row of Markdown; what a refused model lacks stays empty."""
    if "refused" in row:
        return f"| {row['model']} | {row['backend']} | refused: {row['refused']} |"
    cells = (f"{row[name]:.3g}" if isinstance(row[name], float) else str(row[name]) for name in COLUMNS)
    return f"| {' | '.join(cells)} |"


def _measured(folder: Path, backend: str, inputs: int, calibration: int) -> dict[str, Any]:
    """A refusal is a result too."""
    try:
        return measured(folder, backend, inputs, calibration)
    except TacitaError as error:
        return {"model": _named(folder), "backend": backend, "refused": str(error)}


def measured(folder: Path, backend: str, inputs: int, calibration: int) -> dict[str, Any]:
    """Figures of one folder. error: the largest of any logit against the float model."""
    model = tacita.load(folder)
    known, asked = divided(texts_of(folder), inputs, calibration)
    tokens = length(model, [*known, *asked])
    plan = tacita.plan(model, scheme=SCHEMES[backend], tokens=tokens, texts=known)
    began = time.monotonic()
    pairs = [
        (answer, api.reference_logits(plan, model, text))
        for answer, text in zip(BACKENDS[backend](plan, model, asked), asked, strict=True)
    ]
    spent = time.monotonic() - began
    figures = compared(plan, model, pairs, asked)
    return {
        **{"model": _named(folder), "backend": backend, "task": plan.task, "tokens": tokens},
        **{"inputs": len(asked), **figures, "warnings": sum(bool(answer.warnings) for answer, _ in pairs)},
        "predicted": plan.prediction.max_abs_error if isinstance(plan, Plan) else None,
        "seconds": plan.predicted_seconds(),
        "MB": plan.predicted_bytes() / 1e6,
        "seconds_here": spent / len(asked),
    }


def _named(folder: Path) -> str:
    return "/".join(folder.resolve().parts[-2:])


def texts_of(folder: Path) -> list[str]:
    """Of the folder, or the package's sentences."""
    for name in FILES:
        if (folder / name).is_file():
            return (folder / name).read_text().splitlines()
    return [str(text) for text in load_texts()]


def divided(texts: Sequence[str], inputs: int, calibration: int) -> tuple[list[str], list[str]]:
    """To calibrate on, and to ask.

    >>> divided(["a", "b", "c", "d"], 1, 2)
    (['a', 'b'], ['d'])
    """
    different = list(dict.fromkeys(texts))
    if inputs < 1 or len(different) <= inputs:
        raise SystemExit(f"{len(different)} different texts: {inputs} cannot be asked and others calibrate")
    return different[:-inputs][:calibration], different[-inputs:]


def length(model: Checkpoint, texts: Sequence[str]) -> int:
    """The shortest usual length that holds every text."""
    most = max(len(model.tokenizer.encode(text).ids) for text in texts)
    return next(length for length in LENGTHS if most <= length)


def _clear(plan: AnyPlan, model: Checkpoint, texts: Sequence[str]) -> Answers:
    for text in texts:
        yield api.classify_locally(plan, model, text, backend="sim")


def _shares(plan: AnyPlan, model: Checkpoint, texts: Sequence[str]) -> Answers:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), 1, allow_insecure=False, keep_key=True)
        with scheme_of(plan.scheme).private(plan, model, place) as private:
            for text in texts:
                (answer,), _ = private.answer([text], "")
                yield answer


BACKENDS: dict[str, Callable[[AnyPlan, Checkpoint, Sequence[str]], Answers]] = {
    **{"sim": _clear, "fixed": _clear, "shares": _shares},
}


def compared(
    plan: AnyPlan, model: Checkpoint, pairs: Sequence[tuple[Answer, Array]], texts: Sequence[str]
) -> dict[str, Any]:
    """same: how many answers say the same as the float model's, of an embedding None. cosine: the smallest,
    of an embedding."""
    found = [np.reshape(answer.logits, wanted.shape) for answer, wanted in pairs]
    wanted = [each for _, each in pairs]
    error = max(float(np.abs(a - b).max()) for a, b in zip(found, wanted, strict=True))
    if not plan.labels and plan.task != WORDS:
        return {"error": error, "same": None, "cosine": min(map(cosine, found, wanted))}
    rows = [_rows_told(plan, model, text) for text in texts]
    same = [same_choice(a, b, at) for a, b, at in zip(found, wanted, rows, strict=True)]
    return {"error": error, "same": f"{sum(same)}/{len(same)}", "cosine": None}


def same_choice(found: Array, wanted: Array, rows: Sequence[int] | None) -> bool:
    """Whether the largest number is in the same place, in each of these rows (None: all).

    >>> same_choice(np.array([[1.0, 2.0], [4.0, 3.0]]), np.array([[0.0, 1.0], [0.0, 1.0]]), [0])
    True
    """
    chosen = slice(None) if rows is None else list(rows)
    a, b = np.atleast_2d(found)[chosen], np.atleast_2d(wanted)[chosen]
    return bool(np.array_equal(a.argmax(axis=1), b.argmax(axis=1)))


def cosine(a: Array, b: Array) -> float:
    """Of two vectors, by their angle alone."""
    return float(a.ravel() @ b.ravel() / (np.linalg.norm(a) * np.linalg.norm(b)))


def _rows_told(plan: AnyPlan, model: Checkpoint, text: str) -> list[int] | None:
    """The masked rows of a model of masked words; None for others, of which every row counts."""
    if plan.task != WORDS:
        return None
    pieces = model.tokenizer.encode(text).tokens
    return [at for at, piece in enumerate(pieces) if piece in MASKS]


if __name__ == "__main__":
    main()
