"""Where the numbers of a request and of its answers stand in slots, as runs: all that a client knows of a
packing.

A plan states them (`plans.plan.Plan.layout`), and Python and the page read the same bytes. The ciphertexts of
a tensor are one row of slots here, ciphertext c from slot c * slots on. A run is the place of a number, and
how often and how far apart it goes on:

    (3, 5)                          slot 3 holds number 5
    (3, 5, 2, 16, 1)                slots 3 and 19 hold numbers 5 and 6: 2 times, 16 slots and 1 number apart
    (3, 5, 4, 100, 0, 2, 16, 1)     that 4 times, 100 slots apart, with the same numbers

A packing says it by packing numbers that are counted (`layouts.numbered`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tacita.errors import InputError, ShapeError

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, features) and mask (tokens,) of 0 and 1
Run = tuple[int, ...]
Runs = tuple[Run, ...]

HIDDEN, MASK = "hidden", "mask"  # what numbers are: see `Tensor`
MOST_STEPS = 6  # of a run; batches of several lanes have 5
MOST_RUNS = 1 << 12  # of a tensor or of the numbers of a response; 512 tokens on diagonals take under 1,600
MOST_ROUNDS = 64  # of the numbers of a mask, in one run, beside one number for each slot
MOST_SLOTS = 1 << 27  # of a response: 4,096 ciphertexts of the largest ring
REMAKE = "make the plan again"


@dataclass(frozen=True)
class Tensor:
    """Ciphertexts of one name. source: HIDDEN, the hidden states divided by the request's bound, numbered by
    text, token and feature; or MASK, 1/n at the n real tokens of a text, by text and token, where numbers
    after the last one go on with the first. So softmax is the same, and the interval of its sums does not
    grow with n. Slots that no run names are zero."""

    source: str
    count: int
    runs: Runs

    @property
    def last(self) -> int:
        """The largest number of all runs."""
        return max(_reach(run, 1) for run in self.runs)

    def fill(self, numbers: Array, slots: int) -> Array:
        """Returns slots (count, slots) that hold these numbers, given flat. Raises ShapeError for runs that
        leave either."""
        out = np.zeros((self.count, slots))
        if self.source == MASK and self.last >= numbers.size:
            numbers = np.resize(numbers, self.last + 1)
        for run in self.runs:
            _view(out.reshape(-1), run, 0)[...] = _view(numbers, run, 1)
        return out


@dataclass(frozen=True)
class Request:
    """What the client encrypts: so many texts, each of hidden states (tokens, size), in tensors by name.
    bound: hidden states are divided by it, so that calibrated ones lie in [-1, 1]."""

    slots: int
    texts: int
    tokens: int
    size: int
    bound: float
    tensors: Mapping[str, Tensor]

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor."""
        return {name: tensor.count for name, tensor in self.tensors.items()}

    def pack(self, samples: Sequence[Sample]) -> dict[str, list[Array]]:
        """Samples -> tensor name -> slot vectors.

        Empty places hold copies of the first sample: the server cannot see how full the request is. Raises
        InputError for none or too many, or an input of another shape.
        """
        if not 1 <= len(samples) <= self.texts:
            what = f"{len(samples)} inputs in a batch of {self.texts}"
            raise InputError(
                what, hint="split them into batches" if self.texts > 1 else "send them one by one"
            )
        for states, mask in samples:
            if states.shape != (wanted := (self.tokens, self.size)) or mask.shape != (self.tokens,):
                message = f"an input of shape {states.shape} with mask {mask.shape}, expected {wanted}"
                raise InputError(message, hint="pad to the plan's tokens")
        filled = [*samples, *[samples[0]] * (self.texts - len(samples))]
        hidden = np.stack([states for states, _ in filled]) / self.bound
        numbers = {HIDDEN: hidden, MASK: np.stack([mask / mask.sum() for _, mask in filled])}
        return {
            name: list(tensor.fill(numbers[tensor.source].reshape(-1), self.slots))
            for name, tensor in self.tensors.items()
        }

    def check(self) -> Request:
        """Returns itself. Raises ShapeError for runs that leave the slots or the numbers, or fill more slots
        than there are. Sizes are those that the plan was checked for. Cost: a walk over the runs."""
        masks = self.texts * self.tokens
        for name, tensor in self.tensors.items():
            if tensor.source not in (HIDDEN, MASK):
                raise ShapeError(f"layout: {name} is made of {tensor.source!r:.40}", hint=REMAKE)
            numbers = masks * self.size if tensor.source == HIDDEN else MOST_ROUNDS * masks + self.slots
            _check_runs(name, tensor.runs, tensor.count * self.slots, numbers)
        return self


LOOSE = 0.05  # of an answer, or of 1 where that is smaller


@dataclass(frozen=True)
class Answer:
    """What a client decodes, and how far it is to be trusted. values: (size,), or (tokens, size) of an answer
    for every token, where padding's rows hold anything. disagreement: largest difference between copies.
    leak: largest value where zero belongs. norm_check: 1 when the last LayerNorm worked inside its
    interval."""

    values: Array
    disagreement: float
    leak: float
    norm_check: float

    def sound(self, agreement: float = math.inf) -> bool:
        """Whether the figures are those of a run that stayed in its calibrated intervals. agreement: how far
        copies may be apart and zeros off (`Plan.agreement`); never more than LOOSE of the answer.
        """
        loose = LOOSE * max(1.0, float(np.max(np.abs(self.values))))
        quiet = max(self.disagreement, self.leak) <= min(agreement, loose)
        return bool(quiet and abs(self.norm_check - 1.0) <= LOOSE and np.all(np.isfinite(self.values)))


@dataclass(frozen=True)
class Response:
    """Where the answers of so many texts are, each of numbers (rows, size), stored divided by `bound`.

    numbers, copies: of every number twice, by text, row and number; where one stands at several places, the
    first is read and the others may hold anything. norms: half the norm check of each text, which is variance
    * (1/sqrt(variance))^2 of its last LayerNorm at the first token. It is 1 as long as that variance lies in
    its calibrated interval, which an explosion anywhere before it spoils, and always behind a norm that
    divides by a stored number. zeros: of each text, where zero belongs unless one of the others stands there.
    Copies that differ or zeros that are not show a wrong key, overflow or damage.
    """

    slots: int
    count: int
    texts: int
    rows: int
    size: int
    bound: float
    numbers: Runs
    copies: Runs
    norms: Runs
    zeros: Runs

    def beside(self, count: int) -> Response:
        """Returns the response to so many texts, of which number n has every slot s at s * count + n."""
        size = self.rows * self.size
        return replace(
            self,
            slots=self.slots * count,
            texts=count,
            numbers=interleaved(self.numbers, count, size),
            copies=interleaved(self.copies, count, size),
            norms=interleaved(self.norms, count, 1),
            zeros=interleaved(self.zeros, count, 1),
        )

    def read(self, slots: Sequence[NDArray[Any]]) -> list[Answer]:
        """Decoded ciphertexts -> one answer for each place of a request."""
        table = np.stack(list(slots)).reshape(-1)
        count = self.texts * self.rows * self.size
        first, again = (
            self._gathered(table, runs, count).reshape(self.texts, -1) for runs in (self.numbers, self.copies)
        )
        apart, leaks = np.max(np.abs(first - again), axis=1), self._leaks(table)
        values, checks = 0.5 * (first + again) * self.bound, np.ones(self.texts)
        if self.norms:  # which every plan has (`check`)
            checks = 2.0 * self._gathered(table, self.norms, self.texts)
        shape = (self.rows, self.size) if self.rows > 1 else (self.size,)
        return [
            Answer(one.reshape(shape), float(a) * self.bound, float(leak) * self.bound, float(check))
            for one, a, leak, check in zip(values, apart, leaks, checks, strict=True)
        ]

    def check(self) -> Response:
        """Returns itself. Raises ShapeError for runs that leave the slots or the answers, or do not tell
        numbers, copies and checks apart. Cost: a flag for each slot and number."""
        total, count = self.count * self.slots, self.texts * self.rows * self.size
        if not count <= total <= MOST_SLOTS:  # each number has a slot of its own
            what = f"layout: {count} numbers in a response of {total} slots, at most {MOST_SLOTS}"
            raise ShapeError(what, hint=REMAKE)
        used = np.zeros(total, dtype=np.int8)
        parts = (
            ("numbers", self.numbers, count),
            ("copies", self.copies, count),
            ("norms", self.norms, self.texts),
        )
        for mark, (name, runs, wanted) in enumerate(parts, 1):
            _check_runs(name, runs, total, wanted)
            there = np.zeros(wanted, dtype=bool)
            for run in runs:
                if not np.isin(_view(used, run, 0), (0, mark)).all():
                    raise ShapeError(f"layout: {name} where another number stands", hint=REMAKE)
                _view(used, run, 0)[...] = mark
                _view(there, run, 1)[...] = True
            if not there.all():
                raise ShapeError(f"layout: {name} that stand nowhere", hint=REMAKE)
        _check_runs("zeros", self.zeros, total, self.texts)
        return self

    @staticmethod
    def _gathered(table: NDArray[Any], runs: Runs, count: int) -> Array:
        """Reads numbers from their first places."""
        out = np.full(count, np.nan)
        for run in reversed(runs):
            first = (*run[:2], *(part for step in _steps(run) if step[2] for part in step))  # numbers once
            _view(out, first, 1)[...] = _view(table, first, 0).real
        return out

    def _leaks(self, table: NDArray[Any]) -> Array:
        """Finds the largest magnitude of each text where zero belongs."""
        used = np.zeros(table.size, dtype=bool)
        for run in (*self.numbers, *self.copies, *self.norms):
            _view(used, run, 0)[...] = True
        leaks, owners = np.zeros(self.texts), np.arange(self.texts)
        for run in self.zeros:
            sizes = np.nan_to_num(np.abs(_view(table, run, 0)), nan=np.inf, posinf=np.inf)
            np.maximum.at(leaks, _view(owners, run, 1), np.where(_view(used, run, 0), 0.0, sizes))
        return leaks


@dataclass(frozen=True)
class Layout:
    """Where a circuit takes its input and leaves its answers. packing: its name."""

    packing: str
    request: Request
    response: Response


def _steps(run: Run) -> Iterator[tuple[int, int, int]]:
    """Yields how often, how many slots and how many numbers apart, from the outermost step inwards."""
    return ((run[i], run[i + 1], run[i + 2]) for i in range(2, len(run), 3))


def interleaved(runs: Runs, count: int, numbers: int) -> Runs:
    """Returns the runs so many times, each in one slot of so many, and so many numbers apart."""
    return tuple(
        (
            run[0] * count,
            run[1],
            *(count, 1, numbers),
            *(part for times, slots, step in _steps(run) for part in (times, slots * count, step)),
        )
        for run in runs
    )


def _reach(run: Run, side: int) -> int:
    """Returns the last slot of a run (side 0), or its last number (side 1)."""
    return run[side] + sum((step[0] - 1) * step[1 + side] for step in _steps(run))


def _view(array: NDArray[Any], run: Run, side: int) -> NDArray[Any]:
    """Returns the entries of a flat array that a run names by slot (side 0) or by number (side 1), a
    dimension for each step. Raises ShapeError for those that are not there."""
    if min(run) < 0 or _reach(run, side) >= array.size:
        raise ShapeError(f"layout: a run up to {_reach(run, side)} of {array.size}", hint=REMAKE)
    steps = list(_steps(run))
    apart = [step[1 + side] * array.itemsize for step in steps]
    return as_strided(array[run[side] :], [step[0] for step in steps], apart)


def _check_runs(name: str, runs: Runs, slots: int, numbers: int) -> None:
    """Raises ShapeError for runs that are none, or too many, or that leave so many slots or numbers."""
    filled = 0
    for run in runs[:MOST_RUNS]:
        if len(run) % 3 != 2 or len(run) > 2 + 3 * MOST_STEPS or min(run) < 0:
            raise ShapeError(f"layout: {name} with a run of {len(run)} numbers", hint=REMAKE)
        if any(times < 1 or apart < 1 for times, apart, _ in _steps(run)):
            raise ShapeError(f"layout: {name} with a run that stands still", hint=REMAKE)
        if _reach(run, 0) >= slots or _reach(run, 1) >= numbers:
            raise ShapeError(f"layout: {name} beyond {slots} slots or {numbers} numbers", hint=REMAKE)
        filled += math.prod(times for times, _, _ in _steps(run))
    if not runs or len(runs) > MOST_RUNS or filled > slots:
        what = f"layout: {name} of {len(runs)} runs, {filled} of {slots} slots"
        raise ShapeError(what, hint=REMAKE)
