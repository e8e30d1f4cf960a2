"""`python -m bench families`: trained checkpoints beside their float answers: labels or vectors or masked
words, error, cost.

    python -m bench families --json F --models DIR/sapiens/vh --models DIR/rxnfp --inputs 50 --backend sim

A folder's inputs are its `texts.txt` or `reactions.txt`, and without them the package's sentences, or those
of `--texts`, for a model of images a path a line: `--calibration` of them calibrate and the `--inputs` after
these are asked, so that no input is of both. Of an embedding `same` says how many inputs have the same
nearest other one as by the float model; with `--documents`, a file of other sentences, the same nearest
document (of its first 1,000, embedded by the float model), and `same_ten` the same ten. A cross-encoder's
texts are a .tsv file of pairs, and `same` counts the queries whose first document is the same.

    python -m bench photo-crops --wheel scikit_learn-1.4.2-*.whl --output CROPS
    python -m bench families --models DIR/dinov2 --texts CROPS/images.txt --calibration 8 --inputs 52

`sim` is scheme thor with the engine's noise, `ckks` the same encrypted at 128 bits; `fixed` the integers of
two parties in one process, `shares` both over the loopback. Texts over `--tokens` are left out.

With `--json F`, answers in the clear are kept in rows beside that file, a model's in `F.1.rows` and the next
one's in `F.2.rows`, until all models are there: the same command goes on where it was cut off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import tacita
from bench.options import Lines, Packing, lines_of, markdown
from bench.runs.harness import Group, Machine, Ran, alike, ask, cosine, unrounded
from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.ask.measure import Input, Journal, Measure, Row, answers_of
from tacita.cli.console import STDOUT, write_report
from tacita.cli.options import Json, option
from tacita.errors import InputError, TacitaError
from tacita.evaluate.keyring import fixed_bytes
from tacita.planning.calibrate.calibrate import load_texts
from tacita.plans.answers import rounded
from tacita.plans.plan import Plan
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import peak_memory_gb
from tacita.schemes.base import CLEAR, AnyPlan, Place
from tacita.schemes.prices import prices_here
from tacita.schemes.registry import scheme_of
from tacita.settings import PlanOptions
from tacita.texts.embed import MASKS, Text, length_of
from tacita.texts.task import WORDS

BACKENDS = {  # of the command -> scheme, the harness's backend
    "sim": ("thor", "sim"),
    "ckks": ("thor", "ckks"),
    "fixed": (BUMBLEBEE, "sim"),
    "shares": (BUMBLEBEE, "shares"),
}
MEMORY_GB = 15.0  # of the server that evaluates ciphertexts
FILES = ("texts.txt", "reactions.txt")
DOCUMENTS = 1000
PRESET = "n16"
SHORTEST = 16
COLUMNS = (
    *("model", "backend", "task", "tokens", "inputs", "same", "same_ten", "cosine"),
    *("error", "predicted_error", "range", "step"),
)
COSTS = ("predicted_seconds", "seconds", "predicted_MB", "MB", "peak_GB")
Array = NDArray[np.float64]
Line = TypeVar("Line", bound=Text)


@dataclass(frozen=True)
class How:
    """The options of a row. tokens: at most. packing, functions: of ciphertexts."""

    backend: str
    inputs: int
    calibration: int
    tokens: int
    texts: Path | None
    documents: Path | None
    packing: str | None
    functions: str


def families(
    models: Annotated[list[Path], option("--models", help="A folder; may be several.")],
    inputs: Annotated[int, option("--inputs", help="Texts that are asked.")] = 50,
    calibration: Annotated[int, option("--calibration", help="Texts that calibrate.")] = 300,
    backend: Annotated[str, option("--backend", metavar=f"[{'|'.join(BACKENDS)}]")] = "sim",
    tokens: Annotated[int, option("--tokens", help="At most.")] = 512,
    texts: Lines = None,
    documents: Annotated[Path | None, option("--documents", help="Lines, of embeddings.")] = None,
    packing: Packing = None,
    functions: Annotated[str, option("--functions", help="tacita or thor.")] = "tacita",
    json: Json = None,
) -> None:
    """Ask trained models beside their float answers: labels, vectors, errors, bytes, seconds, peak."""
    if backend not in BACKENDS:
        raise InputError(f"bench families: backend {backend!r:.40}", hint=", ".join(BACKENDS))
    how = How(backend, inputs, calibration, tokens, texts, documents, packing, functions)
    file = None if json == STDOUT else json
    beside = [file and file.with_name(f"{file.name}.{place}") for place, _ in enumerate(models, 1)]
    rows: Any = []

    def cells() -> Iterator[list[str]]:
        for folder, place in zip(models, beside, strict=True):
            rows.append(_row(folder, how, place))
            write_report(json, rows)
            yield _cells(rows[-1])

    for line in markdown((*COLUMNS, *COSTS), cells()):
        print(line, flush=True)
    for place in beside:
        Journal.beside(place, "").remove()


def _cells(row: dict[str, Any]) -> list[str]:
    """What a refused model lacks stays empty."""
    if "refused" in row:
        return [row["model"], row["backend"], f"refused: {row['refused']}"]
    return [f"{v:.3g}" if isinstance(v, float) else str(v) for v in map(row.get, (*COLUMNS, *COSTS))]


def _row(folder: Path, how: How, place: Path | None) -> dict[str, Any]:
    """A refusal is a result too. place: beside which rows are kept. Raises InputError for those of another
    measurement."""
    row: dict[str, Any] = {"model": _named(folder), "backend": how.backend}
    with _refusal(row):
        case = Case.of(folder, how)
    if "refused" in row:
        return row
    journal = Journal.beside(place, case.digest(how))
    rows = journal.rows(case.inputs)
    with _refusal(row):
        sent = case.ask(rows, journal)
        row |= case.figures([rows[each] for each in case.inputs], sent, how)
    return row


@contextmanager
def _refusal(row: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except TacitaError as error:
        row["refused"] = str(error)


@dataclass(frozen=True)
class Case:
    """A folder's model and what it is asked. measure: how; its plan shows what is decrypted, but for a vector
    that is normalised, which is rounded already, by a step of its own."""

    model: Checkpoint
    plan: AnyPlan
    measure: Measure
    inputs: list[Input]

    @staticmethod
    def of(folder: Path, how: How) -> Case:
        """Plans for the texts that are asked, by those that calibrate."""
        model, (scheme, backend) = tacita.load(folder), BACKENDS[how.backend]
        given = lines_of(how.texts) if how.texts else texts_of(folder)
        texts = list(islice(short(model, given, how.tokens), how.inputs + how.calibration))
        known, asked = divided(texts, how.inputs, how.calibration)
        tokens = length(model, texts, exact=scheme == BUMBLEBEE)
        options: dict[str, Any] = {"tokens": tokens, "texts": known, "prices": prices_here(PRESET)}
        if scheme == "thor":
            options |= {"packing": how.packing, "functions": how.functions, "preset": PRESET}
        plan: AnyPlan = tacita.plan(model, scheme=scheme, **options)
        exact = unrounded(plan) if isinstance(plan, Plan) and not plan.normalise else plan
        measure = Measure(exact, PlanOptions(model=folder), backend, Place(Path()))
        inputs = [Input.of(number, 0.0, text, model) for number, text in enumerate(asked)]
        return Case(model, plan, measure, inputs)

    @property
    def texts(self) -> list[Text]:
        """Returns those that are asked."""
        return [each.text for each in self.inputs if each.text is not None]

    def digest(self, how: How) -> str:
        """Identifies the answers, and the options that they were asked for."""
        return sha256(f"{self.measure.digest(self.model)} {how}".encode()).hexdigest()

    def ask(self, rows: dict[Input, Row], journal: Journal) -> list[int]:
        """Adds the rows that are not there. Returns the bytes of each request and response; none are sent in
        the clear, where rows are kept."""
        backend = self.measure.backend
        if backend not in CLEAR:
            ran = Ran()
            groups = [Group([text]) for text in self.texts]
            ask(self.measure.plan, self.model, groups, Machine(backend, memory=MEMORY_GB), ran)
            for each, answer, steps in zip(self.inputs, ran.answers, ran.requests, strict=True):
                rows[each] = Row(0.0, (), answer.anyway.logits, steps["evaluate"], len(answer.warnings))
            return ran.sent
        left = [each for each in self.inputs if each not in rows]
        with answers_of(self.measure, self.model, left, 1) as answers:
            journal.keep(rows, answers, len(left), f"{self.model.name} on {backend}")
        return [0]

    def figures(self, rows: Sequence[Row], sent: Sequence[int], how: How) -> dict[str, Any]:
        """error: the largest of any number that is read (see `compared`), as decrypted; step: what a client
        rounds to, and `same` is counted by."""
        plan, model, texts = self.plan, self.model, self.texts
        wanted = [api.reference_logits(plan, model, text) for text in texts]
        index = documents(plan, model, how.documents, {*texts}) if how.documents else None
        found = [np.array(row.logits) for row in rows]
        return {
            **{"task": plan.task, "tokens": plan.tokens},
            **{"inputs": len(rows), "step": None if plan.normalise else plan.logit_step},
            "warnings": sum(bool(row.warnings) for row in rows),
            **compared(plan, model, found, wanted, texts, index),
            **costs(plan, [row.seconds for row in rows], sent),
        }


def costs(plan: AnyPlan, seconds: Sequence[float], sent: Sequence[int]) -> dict[str, Any]:
    """What was predicted and what was seen. seconds: the median, for the first run pays for what is done
    once. Of the other backends than `ckks` and `shares` the seconds are those of the arithmetic in the
    clear, and no bytes are sent. peak_GB: of this process, plan and both sides."""
    on_ciphertexts = plan if isinstance(plan, Plan) else None
    return {
        "predicted_error": on_ciphertexts.prediction.error.bound if on_ciphertexts else None,
        "predicted_seconds": plan.predicted_seconds(),
        "seconds": median(seconds),
        **{"predicted_MB": plan.predicted_bytes() / 1e6, "MB": median(sent) / 1e6},
        "predicted_fixed_GB": fixed_bytes(on_ciphertexts) / 1e9 if on_ciphertexts else None,
        "peak_GB": peak_memory_gb(),
        "too_large": scheme_of(plan.scheme).estimate(plan, memory=MEMORY_GB).get("too_large"),
    }


def short(model: Checkpoint, texts: Sequence[Line], most: int) -> Iterator[Line]:
    """The different texts of at most so many tokens, in their order."""
    for text in dict.fromkeys(texts):
        if length_of(model, text) <= most:
            yield text


def documents(plan: AnyPlan, model: Checkpoint, file: Path, other: set[Text]) -> Array:
    """Unit vectors of the file's first different sentences that fit and are not asked, by the float model."""
    found = (text for text in short(model, lines_of(file), plan.tokens) if text not in other)
    vectors = np.array([api.reference_logits(plan, model, text) for text in islice(found, DOCUMENTS)])
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _named(folder: Path) -> str:
    return "/".join(folder.resolve().parts[-2:])


def texts_of(folder: Path) -> list[Text]:
    """Returns the texts of the folder, or the package's sentences."""
    files = [folder / name for name in FILES if (folder / name).is_file()]
    return lines_of(files[0]) if files else [*load_texts()]


def divided(texts: Sequence[Line], inputs: int, calibration: int) -> tuple[list[Line], list[Line]]:
    """To calibrate on, and to ask.

    >>> divided(["a", "b", "c", "d"], 1, 2)
    (['a', 'b'], ['d'])
    """
    different = list(dict.fromkeys(texts))
    if inputs < 1 or len(different) <= inputs:
        message = f"{len(different)} different texts: {inputs} cannot be asked and others calibrate"
        raise InputError(message, hint="fewer --inputs")
    return different[:-inputs][:calibration], different[-inputs:]


def length(model: Checkpoint, texts: Sequence[Text], *, exact: bool = False) -> int:
    """The shortest power of two that holds every text, 16 at least. exact: of images their own, which two
    parties take."""
    most = max(length_of(model, text) for text in texts)
    return most if exact and model.config.image else max(SHORTEST, 1 << (most - 1).bit_length())


def compared(
    plan: AnyPlan,
    model: Checkpoint,
    found: Sequence[Array],
    wanted: Sequence[Array],
    texts: Sequence[Text],
    index: Array | None = None,
) -> dict[str, Any]:
    """error: the largest of any number that is read: of masked words those at the masked places.

    same: how many answers say the same as the float model's; of an embedding how many are nearest to the
    same row of index, or without one to the same other input; same_ten: and how many to the same ten rows, in
    any order. cosine: the smallest, of an embedding. range: from the smallest to the largest of the float
    model's numbers that are read.
    """
    read = [_rows_told(plan, model, text) for text in texts]

    def beside(values: Sequence[Array]) -> list[tuple[Array, Array]]:
        return [
            (_rows(np.reshape(values[i], wanted[i].shape), rows), _rows(wanted[i], rows))
            for i, rows in enumerate(read)
        ]

    pairs = beside(found)
    shown = pairs if plan.normalise else beside([np.array(rounded(plan, values)) for values in found])
    error = max(float(np.abs(a - b).max()) for a, b in pairs)
    span = max(float(b.max()) for _, b in pairs) - min(float(b.min()) for _, b in pairs)
    embedding = not plan.labels and plan.task != WORDS
    chosen = _likenesses(shown, index) if embedding else shown
    chosen = by_query(shown, texts) if len(plan.labels) == 1 else chosen
    same = [same_choice(a, b) for a, b in chosen]
    ten = ranked(*map(np.array, zip(*chosen, strict=True))) if embedding and index is not None else None
    return {
        **{"error": error, "range": span},
        "same": f"{sum(same)}/{len(same)}" if same else None,
        "same_ten": f"{ten['same_ten']}/{len(same)}" if ten else None,
        "nearest": ten,
        "cosine": min(cosine(a, b) for a, b in pairs) if embedding else None,
    }


def ranked(found: Array, wanted: Array) -> dict[str, Any]:
    """Compares as `alike`. error: the largest of scores. leads: how much nearer the nearest missed are."""
    leads = [float(b.max() - b[a.argmax()]) for a, b in zip(found, wanted, strict=True)]
    error = float(np.abs(found - wanted).max())
    return {**alike(found, wanted), "error": error, "leads": [lead for lead in leads if lead > 0.0]}


def _likenesses(vectors: Sequence[tuple[Array, Array]], index: Array | None) -> list[tuple[Array, Array]]:
    """How like each row of the index both vectors of a pair are; without one, the float model's vectors but
    their own. Empty for two inputs or fewer, which have one other at most."""
    if index is not None:
        return [(index @ a.ravel(), index @ b.ravel()) for a, b in vectors]
    if len(vectors) < 3:
        return []
    wanted = np.array([b.ravel() / np.linalg.norm(b) for _, b in vectors])
    others = [np.where(np.arange(len(wanted)) == own, -np.inf, 0.0) for own in range(len(wanted))]
    pairs = zip(vectors, others, strict=True)
    return [(wanted @ a.ravel() + other, wanted @ b.ravel() + other) for (a, b), other in pairs]


def by_query(scores: Sequence[tuple[Array, Array]], texts: Sequence[Text]) -> list[tuple[Array, Array]]:
    """The scores of all documents of each query; all together of texts that are no pairs."""
    groups: dict[str, list[tuple[Array, Array]]] = {}
    for text, each in zip(texts, scores, strict=True):
        groups.setdefault("" if isinstance(text, str) else text[0], []).append(each)
    return [(np.ravel(a), np.ravel(b)) for a, b in (zip(*each, strict=True) for each in groups.values())]


def _rows(values: Array, rows: Sequence[int] | None) -> Array:
    return values if rows is None else np.atleast_2d(values)[list(rows)]


def same_choice(found: Array, wanted: Array) -> bool:
    """Whether the largest number of every row is in the same place.

    >>> same_choice(np.array([[1.0, 2.0], [4.0, 3.0]]), np.array([[0.0, 1.0], [0.0, 1.0]]))
    False
    """
    return bool(np.array_equal(np.argmax(found, axis=-1), np.argmax(wanted, axis=-1)))


def _rows_told(plan: AnyPlan, model: Checkpoint, text: Text) -> list[int] | None:
    """The masked rows of a model of masked words; None for others, of which every row counts."""
    if plan.task != WORDS:
        return None
    assert model.tokenizer is not None and isinstance(text, str)
    pieces = model.tokenizer.encode(text).tokens
    return [at for at, piece in enumerate(pieces) if piece in MASKS]
