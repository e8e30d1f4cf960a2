"""Linear layers, feed-forward blocks and norms on interleaved columns.

Columns cross layers without their LayerNorm's gamma and beta: those are folded into whatever reads them next,
so that normalising takes one product. A tensor's `Encoding` carries them along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.approx.spec import Spec
from tacita.layouts.columns import Array, Columns, lane_total, shifted, weights
from tacita.packings.encoding import Argument, output_bound
from tacita.packings.shared.linear import Linear, Norm
from tacita.packings.weights import ForwardPlan, Gate
from tacita.slots.base import Backend, Ct, Cts


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


# Feed-forward on interleaved columns, streamed: a block of inner columns is made, activated and added in.
#
# The inner tensor never exists as a whole: with 4 d columns it would be the largest of the model (30 GB for
# BERT-base).

EXPANDED = 256  # inner columns made by one product, which prepares all of the input; they are high and large
CONTRACTED = 512  # activated columns in one product, which rescales every output; they are low and small
SUMMED = 256  # columns of the sum to which one product adds

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
    def build(plan: ForwardPlan, source: Columns, columns: Columns) -> BatchForward:
        """Builds the maps of the block. source: of what it reads, the residual too; columns: of its sum."""
        activation = plan.specs.function
        maps = plan.expansions(Argument(Argument.of(activation).scale))  # not centred: evaluated at once
        narrow, offset = plan.contraction
        back, inner = plan.output.fold_residual(columns.size), Columns.dense(columns.shape, plan.inner)
        blocks = []
        for first, part in _pieces(inner, CONTRACTED):
            expansions = [
                tuple(ColumnMap.build([(weight, source)], bias, piece) for weight, bias in maps)
                for _, piece in _pieces(part, EXPANDED)
            ]
            parts = [(narrow, part)] if first else [(narrow, part), (back, source)]
            shift = offset if not first else 0 * offset
            blocks.append((tuple(expansions), ColumnMap.build(parts, shift, columns)))
        return BatchForward(activation, plan.gate, columns.shape.lanes, tuple(blocks))

    def apply(self, be: Backend, y: Cts, residual: Cts) -> Cts:
        """Maps y to the stored sum of W2 f(W1 y) and the residual. Levels: 2 and the activation's; one more,
        and a relinearisation an inner column, with a gate."""
        inputs, (first, *others) = shifted(be, y, self.lanes), self.blocks
        total = list(first[1].apply(be, self._active(be, first[0], inputs), residual))
        for expansions, contraction in others:
            active = shifted(be, self._active(be, expansions, inputs), self.lanes)
            for start in range(0, len(total), SUMMED):
                for number, ct in enumerate(contraction.outputs(be, active, start, start + SUMMED), start):
                    total[number] = be.add(total[number], ct)
            del active
        return tuple(total)

    def _active(self, be: Backend, expansions: Sequence[Expansion], inputs: Sequence[Ct]) -> Cts:
        """Activated columns of one block."""
        return tuple(ct for expansion in expansions for ct in self._inner(be, expansion, inputs))

    def _inner(self, be: Backend, expansion: Expansion, inputs: Sequence[Ct]) -> Iterator[Ct]:
        """Activated columns, or a gate's products, one after the other."""
        arguments = list(expansion[0].outputs(be, inputs))[::-1]
        active = [self._activate(be, arguments.pop()) for _ in range(len(arguments))]
        if self.gate is None:
            yield from active
            return
        level = min(be.level(ct) for ct in active)
        lowered = [be.drop_to(ct, min(be.level(ct), level + 1)) for ct in inputs]
        yield from self.gate.multiply(be, active, expansion[1].outputs(be, lowered))

    def _activate(self, be: Backend, ct: Ct) -> Ct:
        form = Argument.of(self.activation)
        return self.activation.evaluate(be, ct, form.scale, 1.0 / output_bound(self.activation))


def _pieces(columns: Columns, size: int) -> Iterator[tuple[int, Columns]]:
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
class BatchNorm(Norm):
    """A norm in columns. lanes: of the columns. entry: from `exact_bound`."""

    lanes: int

    @property
    def root_scale(self) -> float:
        """The root takes x / entry to its normalised form, divided by sqrt(features)."""
        return self.entry / float(np.sqrt(self.size))

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon, stored for rsqrt. One level, two with lanes."""
        total, times = lane_total(be, dot(be, x, x), self.lanes), round(self.scale)
        return be.add_const(total if times == 1 else be.mul_int(total, times), self.offset)

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """LayerNorm without gamma and beta, / sqrt(size). One level and a product a column."""
        return tuple(be.mul(ct, root) for ct in x)


def linear_of(columns: Columns) -> Linear[Any]:
    """How blocks compute on columns. One level, whatever the encoding of a residual."""

    def affine(weight: Array, bias: Array, src: Columns, dst: Columns) -> ColumnMap:
        return ColumnMap.build([(weight, src)], bias, dst)

    return Linear(columns, affine, None, scaled, BatchNorm, columns, padded=False, mapped=True, exact=True)


def scaled(be: Backend, x: Sequence[Ct], layout: Any, factor: float, *, centred: bool) -> Cts:
    """x * factor; a mean over features is taken off by a map. One level."""
    assert not centred
    return tuple(be.mul_const(ct, factor) for ct in x)


def dot(be: Backend, xs: Sequence[Ct], ys: Sequence[Ct]) -> Ct:
    """Adds up x_i y_i over all i, a few operands at a time; one relinearisation, one level."""
    acc = None
    for i in range(0, len(xs), AT_ONCE):
        left, right = ([[ct] for ct in side[i : i + AT_ONCE]] for side in (xs, ys))
        acc = be.products(left, right, acc)
    total: Ct = be.relinearise(acc)[0][0]
    return total
