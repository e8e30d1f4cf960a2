"""Linear layers on interleaved columns, and what the numbers in a column mean.

Columns cross layers without their LayerNorm's gamma and beta: those are folded into whatever reads them next,
so that normalising takes one product. `Encoding` carries them along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tacita.approx.spec import Spec
from tacita.layouts.columns import Array, Columns, lane_total, shifted, weights
from tacita.packings.stored import Stored, apply, output_bound
from tacita.packings.vector.linear import exact_bound
from tacita.packings.weights import ForwardWeights, Gate
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Encoding:
    """How stored numbers encode features: value of feature f = scale[f] * stored + offset[f]; stored lies in
    [-1, 1]. Arrays of length (features,)."""

    scale: Array
    offset: Array

    @staticmethod
    def bounded(bound: float, size: int) -> Encoding:
        """The encoding of numbers stored as value / bound."""
        return Encoding(np.full(size, bound), np.zeros(size))

    @staticmethod
    def normalised(gamma: Array, beta: Array) -> Encoding:
        """The encoding of a norm's result stored without gamma and beta, divided by sqrt(features), which
        bounds it whatever the input."""
        return Encoding(gamma * np.sqrt(len(gamma)), beta)

    @property
    def even(self) -> bool:
        """Whether every feature is stored in the same way, with nothing added."""
        return bool((self.scale == self.scale[0]).all() and not self.offset.any())

    def fold(self, weight: Array, bias: Array) -> tuple[Array, Array]:
        """Folds the encoding into a dense map: weight @ value + bias as an affine map of stored numbers."""
        return weight * self.scale, weight @ self.offset + bias


def centring(size: int) -> Array:
    """(size, size): x -> x minus its mean, which is all that a LayerNorm sees of x."""
    return np.eye(size) - 1.0 / size


@dataclass(frozen=True, eq=False)
class Sum:
    """How residual + block is stored: value / exit, without its mean over features if centred.

    residual: encoding of the residual's stored numbers.
    """

    exit: float
    residual: Encoding
    centred: bool = True

    def matrix(self, size: int) -> Array:
        """(size, size): what happens to every term."""
        return centring(size) if self.centred else np.eye(size)

    def of(self, weight: Array, bias: Array, factor: float = 1.0) -> tuple[Array, Array, Array]:
        """A block's last map -> matrix on what it reads, stored as value / factor; offset of the whole sum;
        matrix on the residual."""
        matrix, added = self.matrix(len(bias)), self.residual
        offset = matrix @ (bias + added.offset) / self.exit
        return matrix @ weight * (factor / self.exit), offset, matrix * added.scale / self.exit


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """A dense map of columns: out = sum over sources of matrix @ source + bias, one matrix product over all
    columns. One level.

    weights: (dst.count, lane shifts * columns of a source, lanes), source after source.
    """

    lanes: int
    weights: Array
    bias: Array

    @staticmethod
    def build(parts: Sequence[tuple[Array, Columns]], bias: Array, dst: Columns) -> ColumnMap:
        """Builds the map. parts: (matrix (dst.size, src.size), src) of each source."""
        tables = [weights(matrix, src, dst) for matrix, src in parts]
        return ColumnMap(dst.shape.lanes, np.concatenate(tables, axis=1), dst.lanes_of(bias))

    def apply(self, be: Backend, *sources: Sequence[Ct]) -> Cts:
        """Computes the map. sources: columns as given to `build`, in order; `shifted` ones are made here."""
        return self.outputs(be, [ct for xs in sources for ct in shifted(be, xs, self.lanes)])

    def outputs(self, be: Backend, inputs: Sequence[Ct], first: int = 0, last: int | None = None) -> Cts:
        """Columns first..last of the result from inputs that are shifted already."""
        return tuple(be.matmul(inputs, self.weights[first:last], self.bias[first:last]))


# Feed-forward block on interleaved columns, streamed: a block of inner columns is made, activated and added
# in.
#
# The inner tensor never exists as a whole: with 4 d columns it would be the largest of the model (30 GB for
# BERT-base).

EXPANDED = 128  # inner columns made by one product, which prepares all of the input; they are high and large
CONTRACTED = 256  # activated columns in one product, which rescales every output; they are low and small


Expansion = tuple[ColumnMap, ...]  # of the activation's argument, and with a gate of its factor


@dataclass(frozen=True, eq=False)
class BatchForward:
    """A feed-forward block in columns. blocks: (expansions, contraction) of each block of inner columns,
    which are activated as soon as their expansion is made; the first contraction reads the input as well. An
    expansion is of one map or, with a gate, of two."""

    activation: Spec
    gate: Gate | None
    lanes: int
    blocks: tuple[tuple[tuple[Expansion, ...], ColumnMap], ...]

    @staticmethod
    def build(
        weights: ForwardWeights,
        columns: Columns,
        entry: Encoding,
        activation: Spec,
        stored: Sum,
        gate: Gate | None = None,
    ) -> BatchForward:
        """Builds the maps of the block. stored: the form of its sum."""
        form = Stored(Stored.input_of(activation).scale)  # not centred: evaluated at once
        maps = [entry.fold(*pair) for pair in weights.expansions(1.0, form, gate)]
        factor = gate.scale if gate else output_bound(activation)
        narrow, offset, back = stored.of(*weights.narrow, factor)
        inner = Columns.dense(columns.shape, weights.narrow[0].shape[1])
        blocks = []
        for first, part in _pieces(inner, CONTRACTED):
            expansions = [
                tuple(ColumnMap.build([(weight, columns)], bias, piece) for weight, bias in maps)
                for _, piece in _pieces(part, EXPANDED)
            ]
            parts = [(narrow, part)] if first else [(narrow, part), (back, columns)]
            shift = offset if not first else 0 * offset
            blocks.append((tuple(expansions), ColumnMap.build(parts, shift, columns)))
        return BatchForward(activation, gate, columns.shape.lanes, tuple(blocks))

    def apply(self, be: Backend, y: Cts, residual: Cts) -> Cts:
        """Maps y to the stored sum of W2 f(W1 y) and the residual. Levels: 2 and the activation's; one more,
        and a relinearisation an inner column, with a gate."""
        inputs = shifted(be, y, self.lanes)
        total = self._part(be, 0, inputs, residual)
        for number in range(1, len(self.blocks)):
            part = self._part(be, number, inputs)
            total = tuple(be.add(a, b) for a, b in zip(total, part, strict=True))
            del part
        return total

    def _part(self, be: Backend, number: int, inputs: Sequence[Ct], *residual: Cts) -> Cts:
        """What one block of inner columns adds to the sum; the block is freed."""
        expansions, contraction = self.blocks[number]
        active = [ct for expansion in expansions for ct in self._inner(be, expansion, inputs)]
        return contraction.apply(be, active, *residual)

    def _inner(self, be: Backend, expansion: Expansion, inputs: Sequence[Ct]) -> Iterator[Ct]:
        """Activated columns, or a gate's products, one after the other."""
        active = [self._activate(be, ct) for ct in expansion[0].outputs(be, inputs)]
        if self.gate is None:
            yield from active
            return
        level = min(be.level(ct) for ct in active)
        lowered = [be.drop_to(ct, min(be.level(ct), level + 1)) for ct in inputs]
        yield from self.gate.multiply(be, active, expansion[1].outputs(be, lowered))

    def _activate(self, be: Backend, ct: Ct) -> Ct:
        form = Stored.input_of(self.activation)
        return self.activation.evaluate(be, ct, form.scale, 1.0 / output_bound(self.activation))


def _pieces(columns: Columns, size: int) -> Iterator[tuple[int, Columns]]:
    """(number of the first, so many columns) one after the other."""
    for first in range(0, columns.count, size):
        yield first, Columns(columns.shape, columns.index[first : first + size])


# LayerNorm on interleaved columns: no rotation, one product per column.
#
# The input arrives centred and scaled so that the sum of its squares is the variance in the stored form of
# 1/sqrt; the result leaves without gamma and beta (see `linear.Encoding`), divided by sqrt(features), which
# bounds it. MOAI section 4.3 and ARION section 4.3 spend one level and 2 d plaintext products more on the
# mean, gamma and beta.

AT_ONCE = 16  # columns in one call


@dataclass(frozen=True, eq=False)
class BatchNorm:
    """A norm in columns. rsqrt: of variance + epsilon. bound: of |centred input|. size: features. lanes: of
    the columns."""

    rsqrt: Spec
    epsilon: float
    bound: float
    size: int
    lanes: int

    @property
    def entry(self) -> float:
        """The input is stored as value / entry."""
        return exact_bound(self.bound, self.rsqrt, self.size)

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt. One level, two with lanes; one
        relinearisation."""
        form = Stored.input_of(self.rsqrt)
        total = lane_total(be, dot(be, x, x), self.lanes)
        times = round(self.entry**2 * form.scale / self.size)
        scaled = total if times == 1 else be.mul_int(total, times)
        return be.add_const(scaled, (self.epsilon - form.centre) * form.scale)

    def root(self, be: Backend, variance: Ct) -> Ct:
        """Stored variance -> the factor that takes x / entry to its normalised form. Levels: rsqrt's."""
        return apply(be, variance, self.rsqrt, self.entry / float(np.sqrt(self.size)))

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """LayerNorm without gamma and beta, / sqrt(size). One level below x and root; one product a
        column."""
        return tuple(be.mul(ct, root) for ct in x)


def dot(be: Backend, xs: Sequence[Ct], ys: Sequence[Ct]) -> Ct:
    """Adds up x_i y_i over all i, a few operands at a time; one relinearisation, one level."""
    acc = None
    for i in range(0, len(xs), AT_ONCE):
        left, right = ([[ct] for ct in side[i : i + AT_ONCE]] for side in (xs, ys))
        acc = be.products(left, right, acc)
    total: Ct = be.relinearise(acc)[0][0]
    return total
