"""The last layer of a batch when only the first token is read: one query per sequence, then everything in
cells.

x0, the first token in every token slot, is one masking product and log2(tokens) rotations per column. Scores
of that one query need one product per column instead of one per diagonal, softmax runs on one ciphertext per
head, and what follows (projection, LayerNorms, feed-forward, pooler) on hidden / tokens ciphertexts instead
of `hidden` ones. The papers run all tokens to the end and pack [CLS] before the pooler (ARION) or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.columns.attention import BatchAttentionSpecs
from tacita.packings.columns.cells.cells import CellMap
from tacita.packings.columns.cells.row_estimate import RowSquares
from tacita.packings.columns.layout import Cells, Columns, token_total
from tacita.packings.columns.linear import ColumnMap, Cts, Meaning, Sum
from tacita.packings.columns.norm import BatchNorm, dot
from tacita.packings.stored import Stored, apply, output_bound
from tacita.packings.weights import AttentionWeights
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class BatchFirstToken:
    """Attention of token 0 over all tokens. Methods in order. One lane only."""

    columns: Columns
    heads: int
    specs: BatchAttentionSpecs
    query: ColumnMap
    key: ColumnMap
    value: ColumnMap
    projection: CellMap
    squares: RowSquares | None

    @staticmethod
    def build(
        weights: AttentionWeights, columns: Columns, heads: int, entry: Meaning, specs: BatchAttentionSpecs
    ) -> BatchFirstToken:
        """columns: of x. entry: its meaning. specs.sum: of the result in cells."""
        size = columns.size
        scale, rows = Stored.input_of(specs.exp).scale, specs.rows
        f = float(np.sqrt(scale / np.sqrt(size // heads)))
        pairs = [
            entry.fold(weights.query * f, weights.query_bias * f),
            entry.fold(weights.key * f, (rows.key_bias(weights.key_bias) if rows else weights.key_bias) * f),
            entry.fold(weights.value / specs.attended, weights.value_bias / specs.attended),
        ]
        matrix, bias, back = specs.sum.of(weights.output, weights.output_bias, specs.attended)
        query, key, value = (ColumnMap.build([(w, columns)], b, columns) for w, b in pairs)
        projection = CellMap.gather(np.concatenate([matrix, back], axis=1), bias, Cells(columns.shape, size))
        squares = (
            RowSquares.build(rows, weights.query, weights.query_bias, columns, entry, scale) if rows else None
        )
        return BatchFirstToken(columns, heads, specs, query, key, value, projection, squares)

    def select(self, be: Backend, x: Cts) -> Cts:
        """x -> its first token in every token. One level."""
        shape = self.columns.shape
        first = shape.at_tokens(np.arange(shape.tokens) == 0)
        return tuple(token_total(be, be.mul_vector(ct, first.astype(np.float64)), shape) for ct in x)

    def scores(self, be: Backend, x: Cts, first: Cts) -> Cts:
        """Scores of the query at every key, stored for exp: one ciphertext per head. Two levels."""
        queries, keys = self.query.apply(be, first), self.key.apply(be, x)
        offset = Stored.input_of(self.specs.exp).offset
        per_head = self.columns.count // self.heads
        parts = (slice(h * per_head, (h + 1) * per_head) for h in range(self.heads))
        scores = [be.add_const(dot(be, queries[p], keys[p]), offset) for p in parts]
        if self.squares is None:
            return tuple(scores)
        return tuple(be.sub(s, self.squares.apply(be, first, head)) for head, s in enumerate(scores))

    def weigh(self, be: Backend, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(exp * mask, its sums over tokens stored for the inverse). Two levels below exps."""
        form, shape = Stored.input_of(self.specs.inverse), self.columns.shape
        weighed = tuple(be.mul(e, masks[0]) for e in exps)
        sums = (be.mul_const(token_total(be, w, shape), form.scale) for w in weighed)
        return weighed, tuple(be.add_const(s, form.offset) for s in sums)

    def attend(self, be: Backend, weighed: Cts, sums: Cts) -> Cts:
        """Attention weights: weighed / sums, in [0, 1]. Levels: the inverse's and one."""
        roots = (apply(be, s, self.specs.inverse) for s in sums)
        return tuple(be.mul(w, r) for w, r in zip(weighed, roots, strict=True))

    def project(self, be: Backend, x: Cts, first: Cts, attention: Cts) -> Cts:
        """The stored sum of attention output and first, the residual's, in cells. 3 levels below x, 2 below
        attention, 1 below first."""
        level = min(be.level(a) for a in attention)
        values = self.value.apply(be, [be.drop_to(ct, min(be.level(ct), level + 1)) for ct in x])
        per_head = len(values) // self.heads
        mixed = [
            token_total(be, be.mul(v, attention[i // per_head]), self.columns.shape)
            for i, v in enumerate(values)
        ]
        low = min(be.level(ct) for ct in (*mixed, *first))
        return self.projection.apply(be, [be.drop_to(ct, low) for ct in (*mixed, *first)])


@dataclass(frozen=True, eq=False)
class CellNorm(BatchNorm):
    """LayerNorm in cells."""

    cells: Cells

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance stored for rsqrt, in every token. One level."""
        form, total = Stored.input_of(self.rsqrt), token_total(be, dot(be, x, x), self.cells.shape)
        times = round(self.entry**2 * form.scale / self.size)
        return be.add_const(be.mul_int(total, times), (self.epsilon - form.centre) * form.scale)


@dataclass(frozen=True, eq=False)
class CellForward:
    """Feed-forward block in cells: expand, activate, contract with the residual."""

    activation: Spec
    expansion: CellMap
    contraction: CellMap
    back: CellMap

    @staticmethod
    def build(
        weights: Sequence[np.ndarray], cells: Cells, entry: Meaning, activation: Spec, stored: Sum
    ) -> CellForward:
        """As `BatchForward.build`."""
        up, up_bias, down, down_bias = weights
        form, inner = Stored.input_of(activation), Cells(cells.shape, len(up_bias))
        wide, wide_bias = entry.fold(up * form.scale, up_bias * form.scale + form.offset)
        narrow, offset, back = stored.of(down, down_bias, output_bound(activation))
        return CellForward(
            activation,
            CellMap.build(wide, wide_bias, cells, inner),
            CellMap.build(narrow, offset, inner, cells),
            CellMap.build(back, 0.0 * offset, cells, cells),
        )

    def expand(self, be: Backend, y: Cts) -> Cts:
        """y -> inner features stored for the activation. One level."""
        return self.expansion.apply(be, y)

    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts:
        """The stored sum of W2 active and y, the residual. One level below both."""
        low = min(be.level(ct) for ct in active)
        back = self.back.apply(be, [be.drop_to(ct, min(be.level(ct), low)) for ct in y])
        return tuple(be.add(a, b) for a, b in zip(self.contraction.apply(be, active), back, strict=True))
