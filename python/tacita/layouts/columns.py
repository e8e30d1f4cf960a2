"""Interleaved columns: many sequences at once, one ciphertext per `lanes` features.

slot = (token * sequences + sequence) * lanes + lane. A ciphertext of a tensor (a *column*) holds `lanes`
features of every token of every sequence; with one lane, a feature. All sequences go through the same
operations, a rotation by r * step slots moves the tokens cyclically by r in each of them, and a linear layer
is a matrix product over columns with scalar weights. Two or more lanes fill the slots when there are fewer
sequences than one lane would take. MOAI section 3 and ARION section 3 use one lane; lanes are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tacita.layouts.arrays import refuse
from tacita.layouts.numbered import joined, repeated
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.runs import HIDDEN, MASK, Request, Response, Runs, Tensor
from tacita.slots.base import MAX_PERIOD, Backend, Ct

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ROTATIONS = ("double", "single")  # how attention rotates, ARION's and MOAI's: see `attention.Split`


@dataclass(frozen=True)
class BatchShape:
    """Sizes of a batch: slots of a ciphertext, tokens of a sequence (both powers of two), lanes. Errors:
    ShapeError."""

    slots: int
    tokens: int
    lanes: int = 1

    def __post_init__(self) -> None:
        for name in ("slots", "tokens", "lanes"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise refuse("interleaved", f"{value} {name}", "use a power of two")
        if self.lanes > MAX_PERIOD or self.tokens < 2 or self.tokens * self.lanes > self.slots:
            raise refuse(
                "interleaved",
                f"{self.tokens} tokens and {self.lanes} lanes in {self.slots} slots",
                f"at least 2 tokens, at most {MAX_PERIOD} lanes, and room for one sequence",
            )

    @property
    def step(self) -> int:
        """Slots from one token to the next."""
        return self.slots // self.tokens

    @property
    def sequences(self) -> int:
        """Sequences in a batch."""
        return self.step // self.lanes

    def total(self, be: Backend, ct: Ct) -> Ct:
        """The sum over tokens, in every token: log2(tokens) rotations, no level."""
        only = [ct]
        del ct  # or it would take memory until the sum is there
        return rotate_sum(be, only.pop(), self.tokens, self.step)

    def at_tokens(self, values: Array) -> Array:
        """(tokens,) -> slot vector with values[t] in all sequences and lanes of token t."""
        return np.repeat(values, self.step)


@dataclass(frozen=True, eq=False)
class Columns:
    """Which feature is in which column. index: (columns, lanes), every feature once."""

    shape: BatchShape
    index: IntArray

    @staticmethod
    def dense(shape: BatchShape, size: int) -> Columns:
        """Feature f in lane f % lanes; the lanes of the last column beyond `size` hold feature -1, which is
        zero."""
        padded = -(-size // shape.lanes) * shape.lanes
        features = np.arange(padded)
        return Columns(shape, np.where(features < size, features, -1).reshape(-1, shape.lanes))

    @staticmethod
    def by_heads(shape: BatchShape, heads: int, head_size: int) -> Columns:
        """Lane p of a column holds the same feature of head (group * lanes + p): a lane sees one head only.

        Columns go by group, then by feature of the head. Errors: ShapeError when heads are no multiple of
        lanes.
        """
        if heads % shape.lanes:
            raise refuse(
                "interleaved", f"{heads} heads in {shape.lanes} lanes", "use lanes that divide the heads"
            )
        features = np.arange(heads * head_size).reshape(-1, shape.lanes, head_size)
        return Columns(shape, features.transpose(0, 2, 1).reshape(-1, shape.lanes))

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return len(self.index)

    @cached_property
    def size(self) -> int:
        """Features."""
        return int(self.index.max()) + 1

    def pack(self, values: Array) -> list[Array]:
        """(sequences, tokens, size) -> slot vectors."""
        padded = np.concatenate([values, np.zeros((*values.shape[:2], 1))], axis=2)
        return [padded[:, :, row].transpose(1, 0, 2).reshape(-1) for row in self.index]

    def unpack(self, slots: Sequence[Array]) -> Array:
        """Slot vectors -> (sequences, tokens, size)."""
        shape = self.shape
        out = np.zeros((shape.sequences, shape.tokens, self.size))
        for row, v in zip(self.index, slots, strict=True):
            grid = np.real(v).reshape(shape.tokens, shape.sequences, shape.lanes).transpose(1, 0, 2)
            out[:, :, row[row >= 0]] = grid[:, :, row >= 0]
        return out

    def runs(self, first: int, end: int, width: int) -> Runs:
        """The runs of features first to end of the first sequence, at all tokens, as numbers from 0 on.
        width: numbers of a token."""
        shape, columns = self.shape, enumerate(self.index.tolist())
        places = [(c * shape.slots + lane, f) for c, row in columns for lane, f in enumerate(row)]
        runs = joined([(place, f - first) for place, f in places if first <= f < end])
        return repeated(runs, shape.tokens, shape.step, width)

    def lanes_of(self, values: Array) -> Array:
        """(size,) -> (columns, lanes), zero where there is no feature: the bias of a matrix product."""
        return np.append(values, 0.0)[self.index]


@dataclass(frozen=True)
class Cells:
    """Number i of a vector is at token i % tokens of ciphertext i // tokens, in lane 0; cells beyond `size`
    are zero."""

    shape: BatchShape
    size: int

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return -(-self.size // self.shape.tokens)

    def inner(self, size: int) -> Cells:
        """Cells of so many features."""
        return Cells(self.shape, size)

    def table(self, values: Array) -> Array:
        """(size,) -> (count, tokens)."""
        return np.append(values, np.zeros(self.count * self.shape.tokens - len(values))).reshape(
            self.count, -1
        )

    def vectors(self, values: Array) -> list[Array]:
        """(size,) -> slot vectors with the same numbers in every sequence."""
        return [self.shape.at_tokens(row) for row in self.table(values)]

    def unpack(self, slots: Sequence[Array]) -> Array:
        """Slot vectors -> (sequences, count * tokens), the empty cells included."""
        shape = self.shape
        grid = np.stack([np.real(v) for v in slots]).reshape(-1, shape.sequences, shape.lanes)
        return np.asarray(grid[:, :, 0].T)

    def runs(self, first: int, end: int) -> Runs:
        """The runs of cells first to end of the first sequence, as numbers from 0 on."""
        return joined([(cell * self.shape.step, cell - first) for cell in range(first, end)])


def shifts(lanes: int) -> tuple[int, ...]:
    """Rotations that bring every lane to every other one; out of its group a lane gets weight zero."""
    return tuple(range(1 - lanes, lanes))


def shifted(be: Backend, xs: Sequence[Ct], lanes: int) -> list[Ct]:
    """The inputs of a `weights` product: all columns, once per lane shift. 2 (lanes - 1) hoisted rotations
    each."""
    if lanes == 1:
        return list(xs)
    turned = [be.rotate_many(x, shifts(lanes)) for x in xs]
    return [row[i] for i in range(len(shifts(lanes))) for row in turned]


def weights(matrix: Array, src: Columns, dst: Columns) -> Array:
    """Arranges a matrix (dst.size, src.size) as the weights (dst.count, shifts * src.count, lanes) that
    `Backend.matmul` takes on `shifted` inputs."""
    lanes = src.shape.lanes
    padded = np.pad(matrix, ((0, 1), (0, 1)))
    table = np.zeros((dst.count, len(shifts(lanes)), src.count, lanes))
    for n, shift in enumerate(shifts(lanes)):
        for lane in range(max(0, -shift), min(lanes, lanes - shift)):
            table[:, n, :, lane] = padded[np.ix_(dst.index[:, lane], src.index[:, lane + shift])]
    return table.reshape(dst.count, -1, lanes)


def lane_total(be: Backend, x: Ct, lanes: int) -> Ct:
    """The sum over lanes, in every lane. No level for one lane, else one level."""
    if lanes == 1:
        return x
    inside = [[1.0 if 0 <= lane + shift < lanes else 0.0 for lane in range(lanes)] for shift in shifts(lanes)]
    return be.matmul(shifted(be, [x], lanes), np.array([inside]))[0]


# What the client encrypts for a batch: columns of hidden states, and 1/length at the real tokens.


def batch_request(columns: Columns, bound: float) -> Request:
    """Describes the request of a batch, a text for each sequence. bound: of the hidden states. The runs
    follow from the columns; that they are what `Columns.pack` does is for tests, a batch being too large to
    be packed for it."""
    shape, size = columns.shape, columns.size
    hidden = _over_texts(columns.runs(0, size, size), shape, shape.tokens * size)
    lanes = repeated(((0, 0),), shape.lanes, 1, 0)
    mask = _over_texts(repeated(lanes, shape.tokens, shape.step, 1), shape, shape.tokens)
    tensors = {HIDDEN: Tensor(HIDDEN, columns.count, hidden), MASK: Tensor(MASK, 1, mask)}
    return Request(shape.slots, shape.sequences, shape.tokens, size, bound, tensors)


def _over_texts(runs: Runs, shape: BatchShape, numbers: int) -> Runs:
    """Repeats the runs of the first sequence for all of them, so many numbers apart."""
    return repeated(runs, shape.sequences, shape.lanes, numbers)


# Where the answers of a batch are: for every sequence its numbers, a second copy, a check of the last
# LayerNorm, zeros elsewhere.
#
# In cells: number j at cell j, its copy at cell size + j, half the norm check at cell 2 * size. An answer for
# every token has columns of its numbers, of their copies, and a ciphertext of the check at the first token.


@dataclass(frozen=True)
class BatchAnswer:
    """Where the numbers of answers are made. size: numbers in an answer, stored divided by `bound`. rows: 1,
    or all tokens of an answer for every token. apart: whether copies and check begin with a ciphertext of
    their own, in an answer of one row. Raises ShapeError for an answer of no numbers or other rows."""

    shape: BatchShape
    size: int
    bound: float
    rows: int = 1
    apart: bool = False

    def __post_init__(self) -> None:
        if self.size < 1:
            what = f"an answer of {self.size} numbers"
            raise refuse("interleaved", what, "an answer has one number or more")
        if self.rows not in (1, self.shape.tokens):
            raise refuse("interleaved", f"an answer of {self.rows} rows", "use an answer of one row or all")

    @cached_property
    def cells(self) -> Cells:
        """The cells of an answer: its numbers, their copies and the check."""
        return Cells(self.shape, 2 * self._room + 1)

    @property
    def _room(self) -> int:
        """Cells from a number to its copy."""
        return Cells(self.shape, self.size).count * self.shape.tokens if self.apart else self.size

    @cached_property
    def columns(self) -> Columns:
        """The columns of an answer for every token: its numbers and their copies."""
        return Columns.dense(self.shape, 2 * self.size)

    @property
    def check_cell(self) -> tuple[int, Array]:
        """(ciphertext, slot vector that is 1 at the check's cell)."""
        if self.rows != 1:
            return self.columns.count, self.shape.at_tokens(
                (np.arange(self.shape.tokens) == 0).astype(np.float64)
            )
        flag = np.zeros(self.cells.size)
        flag[-1] = 1.0
        return self.cells.count - 1, self.cells.vectors(flag)[-1]

    @property
    def response(self) -> Response:
        """The layout of the response. Lanes without a number may hold anything."""
        shape, n, whole = self.shape, self.size, self.rows != 1
        count = self.columns.count + 1 if whole else self.cells.count
        if whole:
            last = self.columns.count * shape.slots
            numbers, copies = self.columns.runs(0, n, n), self.columns.runs(n, 2 * n, n)
            norm, zeros = last, repeated(((last, 0),), shape.tokens, shape.step, 0)
        else:
            numbers, copies = self.cells.runs(0, n), self.cells.runs(self._room, self._room + n)
            norm, zeros = (
                2 * self._room * shape.step,
                repeated(((0, 0),), count * shape.tokens, shape.step, 0),
            )
        places = [_over_texts(runs, shape, self.rows * n) for runs in (numbers, copies)]
        owned = [_over_texts(runs, shape, 1) for runs in (((norm, 0),), zeros)]
        sizes = (shape.slots, count, shape.sequences, self.rows, n)
        return Response(*sizes, self.bound, *places, *owned)
