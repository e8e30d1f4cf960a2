"""Interleaved columns: many sequences at once, one ciphertext per `lanes` features.

slot = (token * sequences + sequence) * lanes + lane. A ciphertext of a tensor (a *column*) holds `lanes`
features of every token of every sequence; with one lane, a feature. All sequences go through the same
operations, a rotation by r * step slots moves the tokens cyclically by r in each of them, and a linear layer
is a matrix product over columns with scalar weights. Two or more lanes fill the slots when there are fewer
sequences than one lane would take. MOAI section 3 and ARION section 3 use one lane; lanes are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tacita.errors import InputError
from tacita.extras import AT_DEFAULT
from tacita.layouts.arrays import refuse
from tacita.layouts.base import Answer, Sample, check_sample
from tacita.slots.base import MAX_PERIOD, Backend, Ct

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Cts = Sequence[Ct]

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


def shifts(lanes: int) -> tuple[int, ...]:
    """Rotations that bring every lane to every other one; those that leave the group of lanes get weight
    zero."""
    return tuple(range(1 - lanes, lanes))


def shifted(be: Backend, xs: Cts, lanes: int) -> list[Ct]:
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


def token_total(be: Backend, x: Ct, shape: BatchShape) -> Ct:
    """The sum over tokens, in every token. log2(tokens) rotations, no level."""
    reach = shape.tokens // 2
    while reach:
        x = be.add(x, be.rotate(x, reach * shape.step))
        reach //= 2
    return x


# What the client encrypts for a batch: columns of hidden states, and 1/length at the real tokens.

HIDDEN, MASK = "hidden", "mask"


@dataclass(frozen=True)
class BatchRequest:
    """Numbers that say where everything goes: plain data, as a plan states it.

    slots of a ciphertext; tokens of a text; lanes: features side by side; heads, head_size: of attentions, by
    which the columns are ordered; bound: of the hidden states.
    """

    tag: ClassVar[str] = "columns"

    slots: int
    tokens: int
    lanes: int
    heads: int
    head_size: int
    bound: float

    @property
    def size(self) -> int:
        """Features of a hidden state."""
        return self.heads * self.head_size

    @cached_property
    def columns(self) -> Columns:
        """The columns of the hidden states. Raises ShapeError for sizes that columns do not admit."""
        return Columns.by_heads(BatchShape(self.slots, self.tokens, self.lanes), self.heads, self.head_size)

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor. Raises ShapeError for numbers that are no layout of columns."""
        return {HIDDEN: self.columns.count, MASK: 1}

    def pack(self, inputs: Sequence[Sample]) -> dict[str, list[Array]]:
        """Up to `sequences` inputs, each (tokens, size) hidden states and (tokens,) mask of 0/1 -> slot
        vectors.

        Empty places hold copies of the first input: the server cannot see how full the batch is. Errors:
        InputError for none or too many, or an input of another shape.
        """
        shape, size = self.columns.shape, self.columns.size
        if not 1 <= len(inputs) <= shape.sequences:
            raise InputError(
                f"{len(inputs)} inputs in a batch of {shape.sequences}", hint="split them into batches"
            )
        for sample in inputs:
            check_sample(sample, shape.tokens, size)
        filled = [*inputs, *[inputs[0]] * (shape.sequences - len(inputs))]
        hidden = np.stack([h for h, _ in filled]) / self.bound
        keep = np.stack([m / m.sum() for _, m in filled])
        return {HIDDEN: self.columns.pack(hidden), MASK: [np.repeat(keep.T.reshape(-1), shape.lanes)]}


# Where the answers of a batch are: for every sequence its numbers, a second copy, a check of the last
# LayerNorm, zeros elsewhere.
#
# In cells: number j at cell j, its copy at cell size + j, half the norm check at cell 2 * size. As for one
# input (`layouts.one_text`), copies that differ, zeros that are not, or a check off 1 tell the client
# that a decode is broken.


@dataclass(frozen=True)
class BatchResponse:
    """Numbers that say where the answers are: plain data, as a plan states it.

    slots, tokens, lanes: as in the request. size: numbers in an answer. bound: they are stored divided by it.
    rows: 1, or all tokens of an answer for every token: that has columns of its numbers, of their copies, and
    a ciphertext of the check at the first token.
    """

    tag: ClassVar[str] = "columns"

    slots: int
    tokens: int
    lanes: int
    size: int
    bound: float
    rows: int = field(default=1, metadata=AT_DEFAULT)

    def check(self) -> None:
        """Raises ShapeError for sizes that columns do not admit."""
        if self.size < 1:
            raise refuse(
                "interleaved", f"an answer of {self.size} numbers", "an answer has one number or more"
            )
        BatchShape(self.slots, self.tokens, self.lanes)
        if self.rows not in (1, self.tokens):
            raise refuse("interleaved", f"an answer of {self.rows} rows", "use an answer of one row or all")

    def fits(self, slots: int, tokens: int, lanes: int, hidden: int, classes: bool) -> bool:
        """Whether it is the answer of such a request: logits and features lie alike."""
        return (self.slots, self.tokens, self.lanes) == (slots, tokens, lanes)

    @cached_property
    def cells(self) -> Cells:
        """The cells of an answer: 2 * size + 1 numbers a sequence."""
        return Cells(BatchShape(self.slots, self.tokens, self.lanes), 2 * self.size + 1)

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return self.cells.count if self.rows == 1 else self.columns.count + 1

    @cached_property
    def columns(self) -> Columns:
        """The columns of an answer for every token: its numbers and their copies."""
        return Columns.dense(BatchShape(self.slots, self.tokens, self.lanes), 2 * self.size)

    def read(self, slots: Sequence[Array]) -> list[Answer]:
        """Decoded ciphertexts -> one answer per sequence of the batch."""
        if self.rows != 1:
            return list(self._token_answers(slots))
        return [self._answer(row) for row in self.cells.unpack(slots)]

    def _answer(self, row: Array) -> Answer:
        n = self.size
        first, second, rest = row[:n], row[n : 2 * n], row[2 * n + 1 :]
        return Answer(
            values=0.5 * (first + second) * self.bound,
            disagreement=float(np.max(np.abs(first - second))) * self.bound,
            leak=float(np.max(np.abs(rest), initial=0.0)) * self.bound,
            norm_check=2.0 * float(row[2 * n]),
        )

    def _token_answers(self, slots: Sequence[Array]) -> Iterator[Answer]:
        both, n = self.columns.unpack(slots[:-1]), self.size
        checks = Columns.dense(self.columns.shape, 1).unpack(slots[-1:])[:, :, 0]
        for numbers, check in zip(both, checks, strict=True):
            yield Answer(
                values=0.5 * (numbers[:, :n] + numbers[:, n:]) * self.bound,
                disagreement=float(np.max(np.abs(numbers[:, :n] - numbers[:, n:]))) * self.bound,
                leak=float(np.max(np.abs(check[1:]))) * self.bound,
                norm_check=2.0 * float(check[0]),
            )

    @property
    def check_cell(self) -> tuple[int, Array]:
        """(ciphertext, slot vector that is 1 at the check's cell)."""
        if self.rows != 1:
            shape = self.columns.shape
            return self.columns.count, shape.at_tokens((np.arange(shape.tokens) == 0).astype(np.float64))
        flag = np.zeros(self.cells.size)
        flag[-1] = 1.0
        return self.cells.count - 1, self.cells.vectors(flag)[-1]
