"""Trained checkpoints beside their float answers: labels or vectors or masked words, error, cost.

    python evaluation/families.py --json F --models DIR/sapiens/vh DIR/rxnfp --inputs 50 --backend sim

A folder's inputs are its `texts.txt` or `reactions.txt`, and without them the package's sentences, or those
of `--texts`: `--calibration` of them calibrate and the `--inputs` after these are asked, so that no input is
of both. Of an embedding with `--documents`, a file of other sentences, `same` says how many texts have the
same nearest document (of its first 1,000, embedded by the float model) as by the float model.

`sim` is scheme thor with the engine's noise and `ckks` the same plan encrypted at 128-bit security; `fixed`
the two parties' integers in one process, `shares` two parties over the loopback (see `family_runs.py`). A
text of more tokens than `--tokens` is left out. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import bench_on_path  # noqa: F401
import numpy as np
from family_runs import MEMORY_GB, RUNS, SCHEMES, Run

import tacita
from bench.runs.harness import unrounded
from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.errors import TacitaError
from tacita.evaluate.keyring import fixed_bytes
from tacita.models.base import WORDS
from tacita.planning.calibrate.calibrate import load_texts
from tacita.plans.answers import rounded
from tacita.plans.plan import Plan
from tacita.resources import peak_memory_gb
from tacita.schemes.base import AnyPlan
from tacita.schemes.prices import prices_here
from tacita.schemes.registry import scheme_of
from tacita.texts.embed import MASKS

FILES = ("texts.txt", "reactions.txt")
DOCUMENTS = 1000
PRESET = "n16"
LENGTHS = (16, 32, 64, 128, 256, 512)
COLUMNS = (
    *("model", "backend", "task", "tokens", "inputs", "same", "cosine"),
    *("error", "predicted_error", "range", "step"),
)
COSTS = ("predicted_seconds", "seconds", "predicted_MB", "MB", "peak_GB")
Array = np.ndarray


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--models", type=Path, nargs="+", required=True)
    options.add_argument("--inputs", type=int, default=50)
    options.add_argument("--calibration", type=int, default=300)
    options.add_argument("--backend", choices=RUNS, default="sim")
    options.add_argument("--tokens", type=int, default=LENGTHS[-1], help="at most")
    options.add_argument("--texts", type=Path, help="lines, or a table whose first column is taken")
    options.add_argument("--documents", type=Path, help="the same")
    options.add_argument("--packing", help="of ciphertexts; by default the scheme's own")
    options.add_argument("--functions", default="tacita", help="of ciphertexts: tacita or thor")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    rows: list[dict[str, Any]] = []
    titles = (*COLUMNS, *COSTS)
    print("|".join(("", *titles, "")), "|".join(("", *("---" for _ in titles), "")), sep="\n", flush=True)
    for folder in args.models:
        rows.append(_measured(folder, args))
        print(table_row(rows[-1]), flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=2) + "\n")


def table_row(row: dict[str, Any]) -> str:
    """A row of Markdown; what a refused model lacks stays empty."""
    if "refused" in row:
        return f"| {row['model']} | {row['backend']} | refused: {row['refused']} |"
    values = (row[name] for name in (*COLUMNS, *COSTS))
    cells = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in values)
    return f"| {' | '.join(cells)} |"


def _measured(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """A refusal is a result too."""
    try:
        return measured(folder, args)
    except TacitaError as error:
        return {"model": _named(folder), "backend": args.backend, "refused": str(error)}


def measured(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Figures of one folder. error: the largest of any number that is read (see `compared`), as decrypted;
    step: what a client rounds to, and `same` is counted by. A vector that is normalised is rounded already,
    by a step of its own."""
    model, backend = tacita.load(folder), args.backend
    given = lines_of(args.texts) if args.texts else texts_of(folder)
    texts = list(islice(short(model, given, args.tokens), args.inputs + args.calibration))
    known, asked = divided(texts, args.inputs, args.calibration)
    tokens = length(model, texts)
    how = _on_ciphertexts(args) if SCHEMES[backend] == "thor" else {"prices": prices_here(PRESET)}
    plan = tacita.plan(model, scheme=SCHEMES[backend], tokens=tokens, texts=known, **how)
    exact = unrounded(plan) if isinstance(plan, Plan) and not plan.normalise else plan
    runs = list(RUNS[backend](exact, model, asked))
    wanted = [api.reference_logits(plan, model, text) for text in asked]
    index = documents(plan, model, args.documents, {*asked}) if args.documents else None
    return {
        **{"model": _named(folder), "backend": backend, "task": plan.task, "tokens": tokens},
        "inputs": len(asked),
        "step": None if plan.normalise else plan.logit_step,
        "warnings": sum(bool(run.answer.warnings) for run in runs),
        **compared(plan, model, runs, wanted, asked, index),
        **costs(plan, runs),
    }


def _on_ciphertexts(args: argparse.Namespace) -> dict[str, Any]:
    """What is asked of a plan of ciphertexts."""
    return {"packing": args.packing, "functions": args.functions, "prices": prices_here(PRESET)}


def costs(plan: AnyPlan, runs: Sequence[Run]) -> dict[str, Any]:
    """What was predicted and what was seen. seconds: the median, for the first run pays for what is done
    once. Of the other backends than `ckks` and `shares` the seconds are those of the arithmetic in the
    clear, and no bytes are sent. peak_GB: of this process, plan and both sides."""
    on_ciphertexts = isinstance(plan, Plan)
    return {
        "predicted_error": plan.prediction.error.bound if on_ciphertexts else None,
        "predicted_seconds": plan.predicted_seconds(),
        "seconds": median(run.seconds for run in runs),
        "predicted_MB": plan.predicted_bytes() / 1e6,
        "MB": median(run.bytes for run in runs) / 1e6,
        "predicted_fixed_GB": fixed_bytes(plan) / 1e9 if on_ciphertexts else None,
        "peak_GB": peak_memory_gb(),
        "too_large": scheme_of(plan.scheme).estimate(plan, memory=MEMORY_GB).get("too_large"),
    }


def short(model: Checkpoint, texts: Sequence[str], most: int) -> Iterator[str]:
    """The different texts of at most so many tokens, in their order."""
    for text in dict.fromkeys(texts):
        if len(model.tokenizer.encode(text).ids) <= most:
            yield text


def documents(plan: AnyPlan, model: Checkpoint, file: Path, other: set[str]) -> Array:
    """Unit vectors of the file's first different sentences that fit and are not asked, by the float model."""
    found = (text for text in short(model, lines_of(file), plan.tokens) if text not in other)
    vectors = np.array([api.reference_logits(plan, model, text) for text in islice(found, DOCUMENTS)])
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _named(folder: Path) -> str:
    return "/".join(folder.resolve().parts[-2:])


def texts_of(folder: Path) -> list[str]:
    """Of the folder, or the package's sentences."""
    for name in FILES:
        if (folder / name).is_file():
            return lines_of(folder / name)
    return [str(text) for text in load_texts()]


def lines_of(file: Path) -> list[str]:
    """Lines without their last blanks; of a .tsv file the first column, without its title."""
    lines = file.read_text().splitlines()
    table = [line.split("\t")[0] for line in lines[1:]] if file.suffix == ".tsv" else lines
    return [text.strip() for text in table if text.strip()]


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


def compared(
    plan: AnyPlan,
    model: Checkpoint,
    runs: Sequence[Run],
    wanted: Sequence[Array],
    texts: Sequence[str],
    index: Array | None = None,
) -> dict[str, Any]:
    """error: the largest of any number that is read: of masked words those at the masked places.

    same: how many answers say the same as the float model's; of an embedding how many are nearest to the
    same row of index. cosine: the smallest, of an embedding. range: from the smallest to the largest of the
    float model's numbers that are read.
    """
    read = [_rows_told(plan, model, text) for text in texts]
    answers = [np.array(run.answer.anyway.logits) for run in runs]

    def beside(values: Sequence[Array]) -> list[tuple[Array, Array]]:
        return [
            (_rows(np.reshape(values[i], wanted[i].shape), rows), _rows(wanted[i], rows))
            for i, rows in enumerate(read)
        ]

    pairs = beside(answers)
    shown = pairs if plan.normalise else beside([np.array(rounded(plan, values)) for values in answers])
    error = max(float(np.abs(a - b).max()) for a, b in pairs)
    span = max(float(b.max()) for _, b in pairs) - min(float(b.min()) for _, b in pairs)
    embedding = not plan.labels and plan.task != WORDS
    if embedding and index is not None:
        chosen = [(index @ a.ravel(), index @ b.ravel()) for a, b in shown]
    else:
        chosen = [] if embedding else shown
    same = [same_choice(a, b) for a, b in chosen]
    return {
        "error": error,
        "range": span,
        "same": f"{sum(same)}/{len(same)}" if same else None,
        "cosine": min(cosine(a, b) for a, b in pairs) if embedding else None,
    }


def _rows(values: Array, rows: Sequence[int] | None) -> Array:
    return values if rows is None else np.atleast_2d(values)[list(rows)]


def same_choice(found: Array, wanted: Array) -> bool:
    """Whether the largest number of every row is in the same place.

    >>> same_choice(np.array([[1.0, 2.0], [4.0, 3.0]]), np.array([[0.0, 1.0], [0.0, 1.0]]))
    False
    """
    return bool(np.array_equal(np.argmax(found, axis=-1), np.argmax(wanted, axis=-1)))


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
