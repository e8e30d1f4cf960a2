"""Vector packing: one token's features, repeated with period P = the next power of two over all slots.

After the last attention only the first token is read, so the rest of the last layer is a matrix-vector
pipeline. All rotations are cyclic modulo the period: sums over features are right in every slot, and a matrix
needs as many diagonals as its smaller side (Halevi and Shoup's hybrid of wide and tall matrices): when the
output is shorter than the input, its slots hold partial sums that log2(P_in / P_out) rotations add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tacita.errors import ShapeError
from tacita.layouts.arrays import Array, IntArray, ceil_power, is_power, refuse
from tacita.layouts.numbered import runs_of
from tacita.layouts.rotations import RealMap, rotate_sum
from tacita.layouts.runs import Response, Runs
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.diagonals import Diagonals

LARGE = 1 << 25  # bytes of vectors above which they have a recipe: BERT-base's to all tokens are 1.1 GB
PART = (
    1 << 23
)  # bytes of diagonals that are made at once: for a sum of BERT-base's those of two to four parts


@dataclass(frozen=True)
class VectorLayout:
    """`size` features at slots 0..size-1 of every period; zero up to the period."""

    slots: int
    size: int

    def __post_init__(self) -> None:
        if self.period > self.slots:
            raise refuse("vector", f"{self.size} features in {self.slots} slots", "use a larger ring")

    @property
    def period(self) -> int:
        """P: the next power of two."""
        return ceil_power(self.size)

    @property
    def index(self) -> IntArray:
        """int [period]: feature at each position, or -1."""
        return np.where(np.arange(self.period) < self.size, np.arange(self.period), -1)

    def inner(self, size: int) -> VectorLayout:
        """The layout of a vector of so many features."""
        return VectorLayout(self.slots, size)

    def vectors(self, per_feature: Array) -> list[Array]:
        """`vector`, as every layout gives it: one for each ciphertext."""
        return [self.vector(per_feature)]

    def vector(self, per_feature: Array) -> Array:
        """Periodic vector of per_feature, zero in the padding."""
        return np.concatenate([per_feature, np.zeros(self.period - self.size)])

    def pack(self, values: Array) -> Array:
        """(size,) -> slot vector."""
        return np.tile(self.vector(values), self.slots // self.period)

    def unpack(self, slots: Sequence[Array]) -> Array:
        """The slot vector -> (1, size)."""
        return slots[0][None, : self.size]


@dataclass(frozen=True, eq=False)
class CyclicMap:
    """y = x @ weight.T + bias for ciphertexts whose contents repeat with a period. One level.

    folds: (count, step) of the sum over partial results, (1, 0) when there is none.
    """

    map: RealMap
    bias: tuple[Array, ...]
    folds: tuple[int, int]

    @staticmethod
    def build(
        weight: Array, bias: Array, src: Sequence[IntArray], dst: Sequence[IntArray], *, kept: bool = False
    ) -> CyclicMap:
        """Builds the map with a weight (outputs, inputs). src, dst: feature at each position of one period
        (-1: none), one array per ciphertext; all of src have one period, all of dst have one. Bias where dst
        has features, zero elsewhere.

        Many vectors get a recipe, unless most weights are zero: those are few, and what repeats among them is
        encoded once. kept: they stay for the next text, however many.
        """
        if len({len(a) for a in src}) != 1 or len({len(a) for a in dst}) != 1:
            raise ShapeError(
                "cyclic map: ciphertexts of different periods", hint="pad the layouts to one period"
            )
        width, height = len(src[0]), len(dst[0])
        padded = np.zeros((weight.shape[0] + 1, weight.shape[1] + 1))  # the last ones for no feature
        padded[:-1, :-1] = weight
        pairs = product(enumerate(dst), enumerate(src))
        diagonals = Diagonals.joined([_turns(padded, outs, ins, j, i) for (j, outs), (i, ins) in pairs])
        period = max(width, height)
        many = 8 * period * np.count_nonzero(diagonals.filled) > LARGE
        dense = 2 * np.count_nonzero(weight) > weight.size
        how = period if many and dense and not kept else None
        real_map = RealMap.build(diagonals, n_inputs=len(src), n_outputs=len(dst), period=how)
        folds = (width // height, height) if width > height else (1, 0)
        return CyclicMap(real_map, tuple(np.where(o >= 0, bias[o], 0.0) for o in dst), folds)

    def apply(self, be: Backend, xs: Sequence[Ct]) -> Cts:
        """Ciphertexts of src -> ciphertexts of dst."""
        outs = [rotate_sum(be, y, *self.folds) for y in self.map.apply(be, xs)]
        return tuple(be.add_vector(y, b) for y, b in zip(outs, self.bias, strict=True))


@dataclass(frozen=True, eq=False)
class Turns:
    """Diagonals that follow each other, a `Part` of a table. weight: (outputs + 1, inputs + 1), zero in the
    last row and column. outs, ins: feature at each position of a period. first: offset of the first of them.
    filled: which are not zero."""

    weight: Array
    outs: IntArray
    ins: IntArray
    first: int
    filled: NDArray[np.bool_]

    @property
    def real(self) -> bool:
        """Whether no number has an imaginary part: weights have none."""
        return True

    @property
    def vectors(self) -> Array:
        """The vectors [diagonals, the longer period]: at position p of offset k the weight from position
        p + k."""
        size, (rows, columns) = max(len(self.outs), len(self.ins)), self.weight.shape
        outs, ins = np.resize(self.outs % rows, size), np.resize(self.ins % columns, size)
        offsets = self.first + np.flatnonzero(self.filled)
        meeting = sliding_window_view(np.tile(ins, 2), size)[offsets]
        meeting += outs * columns
        values = np.take(self.weight, meeting)
        if not self.filled.all():
            there, values = values, np.zeros((len(self.filled), size))
            values[self.filled] = there
        return values


def _turns(weight: Array, outs: IntArray, ins: IntArray, output: int, source: int) -> Diagonals:
    """The diagonals of the matrix between positions (outputs, inputs), as many as its smaller side: zero
    where either side has no feature, as most are where features lie far apart."""
    filled = _meetings(weight != 0.0, outs, ins)
    places = np.zeros((len(filled), 3), int)
    places[:, 0], places[:, 1], places[:, 2] = output, source, np.arange(len(places))
    step = max(1, PART // (8 * max(len(outs), len(ins))))
    firsts = range(0, len(filled), step)
    return Diagonals(places, tuple(Turns(weight, outs, ins, at, filled[at : at + step]) for at in firsts))


def _meetings(nonzero: NDArray[np.bool_], outs: IntArray, ins: IntArray) -> NDArray[np.bool_]:
    """Returns for each offset, modulo the smaller period, whether a weight is between positions so far apart.
    nonzero: which weights are not zero, none in the last row and column."""
    size = min(len(outs), len(ins))
    meeting = np.zeros((size, size), dtype=bool)
    for here, there in product(*(np.unique(side.reshape(-1, size), axis=0) for side in (outs, ins))):
        meeting |= nonzero[here].take(there, axis=1)
    return np.asarray(np.any([np.roll(row, -at) for at, row in enumerate(meeting)], axis=0))


# The ciphertexts of an answer that a vector gives: the numbers, a second copy of them, the norm check, and
# zeros.
#
#     apart, of 2 numbers:        block 0 begins with number 0, block 1 with number 1, 2 and 3 with their
#     copies, 4 with the check
#     side by side, of 3 numbers: block 0 is 0, 1, 2 and zeros, block 1 the same again, block 2 begins with
#     the check


def blocks_of(slots: int, period: int, size: int, *, dense: bool) -> tuple[int, bool]:
    """Width of a block, and whether numbers lie apart, of an answer read from a vector of this period.

    dense: whether a dense map gives the numbers. Of few, each has a block, in which products are summed up;
    of more than slots have blocks for, as of a vocabulary, they lie side by side.

    >>> blocks_of(2048, 32, 2, dense=True), blocks_of(2048, 32, 2000, dense=True)
    ((32, True), (512, False))
    """
    if not dense or (2 * size + 1) * period <= slots:
        return period, dense
    return min(ceil_power(max(size, period)), slots // 4), False


@dataclass(frozen=True)
class AnswerBlocks:
    """Where the numbers of an answer are made. slots of a ciphertext; width of a block (a power of two);
    size: numbers in the answer. apart: each number has a block of its own, as logits do; else they lie side
    by side, as features do, over as many ciphertexts as blocks of them take. bound: numbers are stored
    divided by it. Raises ShapeError where the blocks do not fit into the slots."""

    slots: int
    width: int
    size: int
    apart: bool
    bound: float

    def __post_init__(self) -> None:
        blocks = 2 * self.size + 1 if self.apart else 3
        if self.size < 1 or not is_power(self.width) or blocks * self.width > self.slots:
            what = f"an answer of {self.size} numbers in blocks of {self.width} of {self.slots} slots"
            raise refuse(
                "one-text", what, "use more tokens or a larger ring: classes need 2*classes + 1 blocks"
            )

    @property
    def count(self) -> int:
        """Ciphertexts, all real."""
        return 1 if self.apart else -(-self.size // self.width)

    @property
    def norm(self) -> int:
        """The slot of half the norm check, in the first ciphertext."""
        return 2 * self.width * (self.size if self.apart else 1)

    @property
    def response(self) -> Response:
        """The layout of the response."""
        further = self.norm // 2
        norms, zeros = ((self.norm, 0),), ((0, 0, self.count * self.slots, 1, 0),)
        sizes = (self.slots, self.count, 1, 1, self.size)
        return Response(*sizes, self.bound, self._from(0), self._from(further), norms, zeros)

    def _from(self, first: int) -> Runs:
        """Places the numbers from this slot of each ciphertext on."""
        table, numbers = np.zeros((self.count, self.slots)), np.arange(1.0, self.size + 1.0)
        if self.apart:
            table[0, first : first + self.size * self.width : self.width] = numbers
        else:
            full = np.pad(numbers, (0, self.count * self.width - self.size))
            table[:, first : first + self.width] = full.reshape(self.count, self.width)
        return runs_of(table)
