"""Feed-forward block on interleaved columns, streamed: a block of inner columns is made, activated and added
in.

The inner tensor never exists as a whole: with 4 d columns it would be the largest of the model (30 GB for
BERT-base).
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.columns.layout import Array, Columns, shifted
from tacita.packings.columns.linear import ColumnMap, Cts, Meaning, Sum
from tacita.packings.stored import Stored, output_bound
from tacita.slots.base import Backend, Ct

BLOCK = 64  # inner columns alive together


@dataclass(frozen=True, eq=False)
class BatchForward:
    """blocks: (expansion, contraction) of each block of inner columns; the first contraction reads the input
    as well."""

    activation: Spec
    lanes: int
    blocks: tuple[tuple[ColumnMap, ColumnMap], ...]

    @staticmethod
    def build(
        weights: tuple[Array, Array, Array, Array],
        columns: Columns,
        entry: Meaning,
        activation: Spec,
        stored: Sum,
    ) -> BatchForward:
        """weights: (intermediate, hidden), its bias, (hidden, intermediate), its bias. stored: the sum."""
        up, up_bias, down, down_bias = weights
        scale = Stored.input_of(activation).scale
        wide, wide_bias = entry.fold(up * scale, up_bias * scale)
        narrow, offset, back = stored.of(down, down_bias, output_bound(activation))
        inner = Columns.dense(columns.shape, len(up_bias))
        blocks = []
        for first in range(0, inner.count, BLOCK):
            part = Columns(columns.shape, inner.index[first : first + BLOCK])
            expansion = ColumnMap.build([(wide, columns)], wide_bias, part)
            parts = [(narrow, part)] if first else [(narrow, part), (back, columns)]
            blocks.append((expansion, ColumnMap.build(parts, offset if not first else 0 * offset, columns)))
        return BatchForward(activation, columns.shape.lanes, tuple(blocks))

    def apply(self, be: Backend, y: Cts, residual: Cts) -> Cts:
        """y -> the stored sum of W2 f(W1 y) and the residual. Levels: 2 and the activation's."""
        inputs = shifted(be, y, self.lanes)
        total: list[Ct] = []
        for number, (expansion, contraction) in enumerate(self.blocks):
            active = [self._activate(be, ct) for ct in expansion.outputs(be, inputs)]
            part = contraction.apply(be, active, residual) if number == 0 else contraction.apply(be, active)
            total = [be.add(a, b) for a, b in zip(total, part, strict=True)] if total else list(part)
        return tuple(total)

    def _activate(self, be: Backend, ct: Ct) -> Ct:
        form = Stored.input_of(self.activation)
        return self.activation.evaluate(be, ct, form.scale, 1.0 / output_bound(self.activation))
