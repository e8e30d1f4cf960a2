"""The tanh pooler of a batch, in cells: one polynomial for the [CLS] features of all sequences."""

from __future__ import annotations

from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.columns.cells.cells import CellMap
from tacita.packings.columns.layout import Array, Cells
from tacita.packings.columns.linear import Cts, Meaning
from tacita.packings.stored import Stored, apply, output_bound
from tacita.slots.base import Backend


@dataclass(frozen=True, eq=False)
class CellPooler:
    """tanh(W x + b)."""

    dense: CellMap
    tanh: Spec

    @staticmethod
    def build(weight: Array, bias: Array, cells: Cells, entry: Meaning, tanh: Spec) -> CellPooler:
        """entry: meaning of x. dense gives x stored for tanh, one level below."""
        form = Stored.input_of(tanh)
        matrix, offset = entry.fold(weight * form.scale, bias * form.scale + form.offset)
        return CellPooler(CellMap.build(matrix, offset, cells, cells), tanh)

    def activate(self, be: Backend, inner: Cts) -> Cts:
        """tanh / its largest value. The spec's levels."""
        return tuple(apply(be, ct, self.tanh, 1.0 / output_bound(self.tanh)) for ct in inner)

    @property
    def exit(self) -> Meaning:
        """Of the result, by feature."""
        return Meaning.bounded(output_bound(self.tanh), self.dense.dst.size)
