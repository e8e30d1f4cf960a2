"""Row estimate: a number taken from all scores of a row, from the row's query alone, so that all rows' means
are alike.

Softmax does not change when a row's scores all fall by the same number. The log of a row's mean of
exponentials is close to a quadratic form of its query (the second cumulant of its scores, which are linear in
the query), mostly of rank 1:

    log mean_j exp(q_i . k_j)  ~  b . q_i + (v . q_i)^2 + c        (q divided by sqrt(head size))

Taken from the scores before exp, it leaves 1/x a narrow interval at no level of its own: b . q_i comes off
with the key's bias, and (v . q_i)^2 is ready at the level of the scores for one column and one square a head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from tacita.packings.columns.layout import Array, Columns
from tacita.packings.columns.linear import ColumnMap, Meaning
from tacita.slots.base import Backend, Ct

Vectors = tuple[tuple[float, ...], ...]  # (heads, head size)


@dataclass(frozen=True)
class RowEstimate:
    """linear b, quadratic v, constant c of every head of one layer."""

    linear: Vectors
    quadratic: Vectors
    constant: tuple[float, ...]

    def of(self, queries: Array) -> Array:
        """queries (tokens, heads, head size), divided by sqrt(head size) -> (heads, tokens)."""
        b, v = np.array(self.linear), np.array(self.quadratic)
        z = np.einsum("thd,hd->ht", queries, v)
        return np.asarray(np.einsum("thd,hd->ht", queries, b) + z**2 + np.array(self.constant)[:, None])

    def key_bias(self, bias: Array) -> Array:
        """The key's bias (hidden,) less b: it takes b . q_i from the scores."""
        return np.asarray(bias - np.concatenate([np.array(b) for b in self.linear]))

    def roots(self, weight: Array, bias: Array) -> tuple[Array, Array]:
        """Query (hidden, inputs), (hidden,), scaled by any factor -> v . q of every head: (heads, inputs),
        (heads,)."""
        v = np.array(self.quadratic)
        heads, size = v.shape
        return np.einsum("hd,hdi->hi", v, weight.reshape(heads, size, -1)), (
            v * bias.reshape(heads, size)
        ).sum(axis=1)

    def to_dict(self) -> dict[str, Any]:
        """JSON data; `from_json` gives back an equal object."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RowEstimate:
        """Inverse of to_dict. Raises KeyError or TypeError for missing or ill-typed fields."""
        return RowEstimate(**{f.name: _tuples(data[f.name]) for f in fields(RowEstimate)})


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


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list | tuple) else float(value)
