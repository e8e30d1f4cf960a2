"""How `tacita accuracy` asks its inputs, in one process or several, beside the float model; and the journal
by which a run that was cut off goes on."""

from __future__ import annotations

import atexit
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.console import STDOUT, err, progress, several, shown
from tacita.cli.options import load_model
from tacita.errors import FileError, InputError, ResourceError
from tacita.plans.files import digest_of
from tacita.plans.json_fields import canonical, from_json, loads, to_json
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.resources import threads as all_threads
from tacita.schemes.base import REAL, AnyPlan, Place
from tacita.schemes.registry import scheme_of
from tacita.settings import PlanOptions
from tacita.texts.embed import Text, embedded

Array = npt.NDArray[np.float64]
ROWS = ".rows"  # ends the name of the journal beside the file of `--json`


@dataclass(frozen=True)
class Row:
    """An input's figures: label number (or number), the float model's logits, the circuit's logits, seconds,
    number of warnings. Of a word that a decoder predicts the logits are `of_words`. empty: the answer failed
    its checks, so that a client is shown none."""

    label: float
    reference: tuple[float, ...]
    logits: tuple[float, ...]
    seconds: float
    warnings: int
    empty: bool = False


@dataclass(frozen=True)
class Input:
    """What is asked. number: from 0, the seed of sim's noise, so that answers do not depend on how many
    processes there are. text: None of a decoder, which is asked what comes behind `tokens`. sha256: of an
    image's file."""

    number: int
    label: float
    text: Text | None = None
    tokens: tuple[int, ...] = ()
    sha256: str = ""

    @staticmethod
    def of(number: int, label: float, text: Text, model: Checkpoint) -> Input:
        image = model.config.image is not None
        return Input(number, label, text, sha256=digest_of(Path(str(text))) if image else "")

    @property
    def digest(self) -> str:
        """Identifies it in a journal."""
        return sha256(canonical(to_json(asdict(self)))).hexdigest()


def of_words(label: float, *logits: Array) -> tuple[tuple[float, ...], ...]:
    """Returns of each side the logarithms of a decoder's probabilities of four words, which a vocabulary's
    figures need: of the right one, of each side's likeliest, and of that in which the sides differ most. Of
    words that are equally likely a client takes the first; the others are a last bit less likely here."""
    shifted = [each - each.max() for each in map(np.ravel, logits)]
    sides = np.array([each - math.log(np.exp(each).sum()) for each in shifted])
    words = np.array([int(label), *sides.argmax(axis=1), np.ptp(sides, axis=0).argmax()])
    for side in sides:
        equal = side == side.max()
        equal[side.argmax()] = False
        side[equal] = np.nextafter(side.max(), -np.inf)
    return tuple(tuple(side[words].tolist()) for side in sides)


@dataclass(frozen=True)
class Measure:
    """How inputs are asked, in any process. model: by its folder. place: of ciphertexts. exact: functions
    that are not approximated."""

    plan: AnyPlan
    model: PlanOptions
    backend: str
    place: Place
    exact: tuple[str, ...] = ()

    def digest(self, model: Checkpoint) -> str:
        """Identifies what decides answers: approximations, weights, backend. A plan's hash is another in each
        run: it commits to the weights with a fresh salt, and by this machine's prices, timed anew, bootstraps
        may stand elsewhere and other norms be fused, which changes noise alone."""
        plan = self.plan
        common = {
            "scheme": plan.scheme,
            "tokens": plan.tokens,
            "backend": self.backend,
            "exact": self.exact,
            "model": model.sha256,
        }
        if not isinstance(plan, Plan):
            return sha256(canonical({**common, "program": plan.hash})).hexdigest()
        circuit = to_json(plan.circuit)
        del circuit["calibration"]["sha256"]
        for node in circuit["specs"]["nodes"].values():
            node.pop("fused", None)
        own = {"circuit": circuit, "packing": plan.packing, "preset": plan.parameters.preset}
        return sha256(canonical({**common, **own})).hexdigest()

    @contextmanager
    def open(self, model: Checkpoint) -> Iterator[Callable[[Input], Row]]:
        """Yields what asks one input: in the clear, or with both sides of an encrypted run."""
        if self.backend != REAL:
            yield lambda each: self._row(model, each, partial(self._clear, model))
            return
        with scheme_of(self.plan.scheme).private(self.plan, model, self.place) as private:

            def answer(each: Input, states: Array | None) -> api.Answer:
                assert each.text is not None  # `problem_of` refuses a decoder
                return private.answer([each.text], "")[0][0]

            yield lambda each: self._row(model, each, answer)

    def _clear(self, model: Checkpoint, each: Input, states: Array | None) -> api.Answer:
        return api.classify_locally(
            self.plan,
            model,
            each.text,
            hidden_states=states,
            backend=self.backend,
            seed=each.number,
            exact=self.exact,
        )

    def _row(self, model: Checkpoint, each: Input, ask: Callable[[Input, Array | None], api.Answer]) -> Row:
        ids = list(each.tokens)
        states = embedded(model, ids, [0] * len(ids)) if ids else None
        began = time.monotonic()
        answer = ask(each, states).anyway
        seconds, logits = time.monotonic() - began, answer.logits
        floats = np.ravel(api.reference_logits(self.plan, model, each.text, hidden_states=states))
        wanted = tuple(floats.tolist())
        if ids:
            logits, wanted = of_words(each.label, np.array(logits), floats)
        return Row(each.label, wanted, logits, seconds, len(answer.warnings), not answer.trusted)


@contextmanager
def answers_of(
    measure: Measure, model: Checkpoint, inputs: Sequence[Input], processes: int
) -> Iterator[Iterator[tuple[Input, Row]]]:
    """Yields inputs with their rows in order, as they come: of one process from this one, else from others,
    which end with the block. Raises ResourceError where one of them was killed."""
    if not inputs:
        yield iter(())
        return
    if processes <= 1:
        with measure.open(model) as row:
            yield ((each, row(each)) for each in inputs)
        return
    place = measure.place  # a process has one thread of linear algebra (`tacita.cli`), so no two share a core
    cores = max(1, (place.threads or all_threads()) // processes)
    part = replace(measure, place=replace(place, threads=cores, memory=place.memory / processes))
    spawn = get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(inputs)), spawn, _begin, (part,)) as workers:
        try:
            yield zip(inputs, workers.map(_answer, inputs), strict=True)
        except BrokenProcessPool:
            raise ResourceError(
                "accuracy: one of its processes was killed", hint="fewer --processes need less memory"
            ) from None


_parts: list[Measure] = []  # of a process that answers: how


def _begin(part: Measure) -> None:
    _parts.append(part)


def _answer(each: Input) -> Row:
    return _answerer()(each)


@lru_cache(maxsize=1)
def _answerer() -> Callable[[Input], Row]:
    """Loads the model once a process, and opens what answers there, in a folder that goes with it."""
    (part,), stack = _parts, ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=part.place.folder)))
    own = replace(part, place=replace(part.place, folder=folder))
    return stack.enter_context(own.open(load_model(part.model)))


@dataclass(frozen=True)
class Journal:
    """Rows of a run that may be cut off, in a file beside that of `--json`: a line an input, with the digests
    of what decides its answer and of the input. path: None to keep nothing."""

    path: Path | None
    measure: str

    @staticmethod
    def beside(json: Path | None, measure: str) -> Journal:
        """Returns the journal of a report's file; standard output has none."""
        return Journal(json.with_name(json.name + ROWS) if json and json != STDOUT else None, measure)

    def rows(self, inputs: Sequence[Input]) -> dict[Input, Row]:
        """Returns the rows that are there, and says with how many the run goes on; without a last line that
        was cut off. Raises FileError for what is no journal, InputError for that of another measurement."""
        if self.path is None or not self.path.exists():
            return {}
        wanted, rows = {each.digest: each for each in inputs}, dict[Input, Row]()
        try:
            *lines, _ = self.path.read_text(encoding="utf-8").split("\n")
            entries = [from_json(Entry, loads(line)) for line in lines]
        except (OSError, KeyError, TypeError, ValueError) as error:
            problem = f"{self.path}: no rows of a measurement ({error!s:.200})"
            raise FileError(problem, hint="remove it, or choose another --json") from None
        for entry in entries:
            if entry.measure != self.measure:
                problem = f"{self.path}: rows of another model, plan or backend"
                raise InputError(problem, hint="remove it, or choose another --json")
            if entry.input in wanted:
                rows[wanted[entry.input]] = entry.row
        count = f"{len(inputs) - len(rows)} of {several(len(inputs), 'input')}"
        err.print(f"{shown(str(self.path))}: goes on with {count}", soft_wrap=True)
        text = "".join(line + "\n" for line in lines)
        self.path.write_text(text, encoding="utf-8")  # without what was cut off
        return rows

    def keep(self, rows: dict[Input, Row], new: Iterable[tuple[Input, Row]], left: int, title: str) -> None:
        """Adds new rows to the others and to the file as they come, under a bar. Raises FileError."""
        there, total, began = len(rows), len(rows) + left, time.monotonic()
        with progress(title) as report:
            report(Progress("input", there, total, 0.0, 2.0 * left))
            for done, (each, row) in enumerate(new, 1):
                rows[each] = row
                self.write(each, row)
                spent = time.monotonic() - began
                report(Progress("input", there + done, total, spent, spent / done * (left - done)))

    def write(self, each: Input, row: Row) -> None:
        """Adds a row; one that holds no number is asked again. Raises FileError."""
        if self.path is not None and np.isfinite(row.logits).all():
            line = canonical(to_json(Entry(self.measure, each.digest, row))) + b"\n"
            try:
                with self.path.open("ab") as file:
                    file.write(line)
            except OSError as error:
                problem = f"{self.path}: cannot be written ({error})"
                raise FileError(problem, hint="choose another --json") from error

    def remove(self) -> None:
        """Removes the file, once the report has its figures."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Entry:
    """A line of a journal."""

    measure: str
    input: str
    row: Row
