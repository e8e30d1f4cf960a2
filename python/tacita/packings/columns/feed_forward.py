"""Feed-forward block on interleaved columns, streamed: a block of inner columns is made, activated and added
in.

The inner tensor never exists as a whole: with 4 d columns it would be the largest of the model (30 GB for
BERT-base).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.columns.layout import Columns, shifted
from tacita.packings.columns.linear import ColumnMap, Cts, Meaning, Sum
from tacita.packings.stored import Stored, output_bound
from tacita.packings.weights import ForwardWeights, Gate
from tacita.slots.base import Backend, Ct

EXPANDED = 128  # inner columns made by one product, which prepares all of the input; they are high and large
CONTRACTED = 256  # activated columns in one product, which rescales every output; they are low and small


Expansion = tuple[ColumnMap, ...]  # of the activation's argument, and with a gate of its factor


@dataclass(frozen=True, eq=False)
class BatchForward:
    """blocks: (expansions, contraction) of each block of inner columns, which are activated as soon as their
    expansion is made; the first contraction reads the input as well. An expansion is of one map or, with a
    gate, of two."""

    activation: Spec
    gate: Gate | None
    lanes: int
    blocks: tuple[tuple[tuple[Expansion, ...], ColumnMap], ...]

    @staticmethod
    def build(
        weights: ForwardWeights,
        columns: Columns,
        entry: Meaning,
        activation: Spec,
        stored: Sum,
        gate: Gate | None = None,
    ) -> BatchForward:
        """stored: the sum."""
        form = Stored(Stored.input_of(activation).scale)  # not centred: evaluated at once
        maps = [entry.fold(*pair) for pair in weights.expansions(1.0, form, gate)]
        factor = gate.scale if gate else output_bound(activation)
        narrow, offset, back = stored.of(*weights.narrow, factor)
        inner = Columns.dense(columns.shape, weights.narrow[0].shape[1])
        blocks = []
        for first, part in _pieces(inner, CONTRACTED):
            made = [
                tuple(ColumnMap.build([(weight, columns)], bias, piece) for weight, bias in maps)
                for _, piece in _pieces(part, EXPANDED)
            ]
            parts = [(narrow, part)] if first else [(narrow, part), (back, columns)]
            shift = offset if not first else 0 * offset
            blocks.append((tuple(made), ColumnMap.build(parts, shift, columns)))
        return BatchForward(activation, gate, columns.shape.lanes, tuple(blocks))

    def apply(self, be: Backend, y: Cts, residual: Cts) -> Cts:
        """y -> the stored sum of W2 f(W1 y) and the residual. Levels: 2 and the activation's; one more, and a
        relinearisation an inner column, with a gate."""
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
