"""The quadratic part of a row estimate (`approx.row_estimate`) in columns: one column and one square a head,
at the level of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.approx.row_estimate import RowEstimate
from tacita.packings.columns.layout import Array, Columns
from tacita.packings.columns.linear import ColumnMap, Meaning
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class RowSquares:
    """((v . q)^2 + c) * scale of a layer, in columns: one for each group of heads. constants: (groups,
    lanes)."""

    roots: ColumnMap
    constants: Array

    @staticmethod
    def build(
        rows: RowEstimate, query: Array, query_bias: Array, columns: Columns, entry: Meaning, scale: float
    ) -> RowSquares:
        """query (hidden, hidden), query_bias: as in the model. columns, entry: of x. scale: of the scores'
        stored form."""
        factor = np.sqrt(scale * len(rows.constant) / len(query_bias))
        matrix, bias = rows.roots(*entry.fold(query * factor, query_bias * factor))
        heads = Columns(columns.shape, np.arange(len(rows.constant)).reshape(-1, columns.shape.lanes))
        roots = ColumnMap.build([(matrix, columns)], bias, heads)
        return RowSquares(roots, np.array(rows.constant)[heads.index] * scale)

    def apply(self, be: Backend, inputs: Sequence[Ct], group: int) -> Ct:
        """inputs: x, shifted (`layout.shifted`). Two levels below, like the scores."""
        root = self.roots.outputs(be, inputs, group, group + 1)[0]
        return be.add_vector(be.square(root), self.constants[group])
