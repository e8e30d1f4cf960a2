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
from tacita.layouts.columns import Array, Cells, Columns, token_total
from tacita.packings.columns.attention import BatchAttentionSpecs, completed, variance
from tacita.packings.columns.cells import CellMap, RowSquares
from tacita.packings.columns.linear import BatchNorm, ColumnMap, Cts, Encoding, Sum, dot
from tacita.packings.positional import Positional, turned
from tacita.packings.stored import Normed, Side, Stored, apply, output_bound
from tacita.packings.weights import AttentionWeights, ForwardWeights, Gate
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
    positional: Positional
    entry: Encoding
    normed: Normed | None

    @staticmethod
    def build(
        weights: AttentionWeights, columns: Columns, heads: int, entry: Encoding, specs: BatchAttentionSpecs
    ) -> BatchFirstToken:
        """Builds all maps. columns: of x. entry: its encoding. specs.sum: of the result in cells."""
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
        return BatchFirstToken(
            columns,
            heads,
            specs,
            query,
            key,
            value,
            projection,
            squares,
            weights.positional,
            entry,
            weights.normed,
        )

    def select(self, be: Backend, x: Cts) -> Cts:
        """Copies the first token of x into every token. One level."""
        shape = self.columns.shape
        first = shape.at_tokens(np.arange(shape.tokens) == 0)
        return tuple(token_total(be, be.mul_vector(ct, first.astype(np.float64)), shape) for ct in x)

    def variances(self, be: Backend, x: Cts, first: Cts) -> tuple[Cts, Cts]:
        """Variances of the query and of the keys, where they are normalised: a ciphertext a head. 2
        levels."""
        assert self.normed is not None
        return self._variances(be, first, self.normed.queries), self._variances(be, x, self.normed.keys)

    def _variances(self, be: Backend, x: Cts, side: Side) -> Cts:
        weight, bias = self.entry.fold(*side.squared)
        squares = ColumnMap.build([(weight, self.columns)], bias, self.columns).apply(be, x)
        per_head = len(squares) // self.heads
        return tuple(variance(be, side, squares[i : i + per_head]) for i in range(0, len(squares), per_head))

    def _normalised(self, be: Backend, projections: Cts, roots: Cts, side: Side) -> Cts:
        per_head, scale = len(projections) // self.heads, Stored.input_of(self.specs.exp).scale
        betas = [complex(b) for b in side.beta[:per_head] * np.sqrt(scale / np.sqrt(per_head))]
        parts = (projections[i : i + per_head] for i in range(0, len(projections), per_head))
        return tuple(
            ct for part, root in zip(parts, roots, strict=True) for ct in completed(be, part, root, betas)
        )

    def scores(self, be: Backend, x: Cts, first: Cts, *roots: Cts) -> Cts:
        """Scores of the query at every key, stored for exp: one ciphertext per head. Two levels, three with
        rotary positions, by which the query is turned back for each key; and one with roots of normalised
        queries and keys."""
        queries, keys = self.query.apply(be, first), self.key.apply(be, x)
        if self.normed:
            queries = self._normalised(be, queries, roots[0], self.normed.queries)
            keys = self._normalised(be, keys, roots[1], self.normed.keys)
        queries = self._turned(be, queries)
        per_head = self.columns.count // self.heads
        parts = (slice(h * per_head, (h + 1) * per_head) for h in range(self.heads))
        dots = [dot(be, queries[p], keys[p]) for p in parts]
        scores = [self._placed(be, s, head) for head, s in enumerate(dots)]
        if self.squares is None:
            return tuple(scores)
        return tuple(be.sub(s, self.squares.apply(be, first, head)) for head, s in enumerate(scores))

    def _turned(self, be: Backend, queries: Cts) -> Cts:
        if self.positional.rotary is None:
            return queries
        features, tokens = self.columns.index[:, :1], np.arange(self.columns.shape.tokens)
        angles = self.positional.rotary.back.of_features(features % (len(queries) // self.heads), tokens)
        cos, sin = ([self.columns.shape.at_tokens(row) for row in side] for side in angles)
        return tuple(turned(be, queries, self._crossed(be, queries), cos, sin))

    def _crossed(self, be: Backend, queries: Cts) -> list[Ct]:
        """Orders the columns for the sines: of each head the second half of its columns, negated, then the
        first."""
        grid = np.arange(len(queries)).reshape(self.heads, 2, -1)
        return [
            be.neg(queries[i]) if second else queries[i]
            for head in grid
            for second, half in ((True, head[1]), (False, head[0]))
            for i in half
        ]

    def _placed(self, be: Backend, scores: Ct, head: int) -> Ct:
        """Stored for exp, with what relative positions add."""
        form, added = Stored.input_of(self.specs.exp), self.positional.added
        if added is None:
            return be.add_const(scores, form.offset)
        return be.add_vector(scores, self.columns.shape.at_tokens(added[head, 0] * form.scale + form.offset))

    @property
    def visible(self) -> list[Array] | None:
        """A mask for each head, 1 at the keys that the query sees; None without a limited reach."""
        visible = self.positional.visible
        return None if visible is None else [self.columns.shape.at_tokens(visible[0])] * self.heads

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
    gate: Gate | None
    expansion: CellMap
    contraction: CellMap
    back: CellMap

    @staticmethod
    def build(
        weights: ForwardWeights,
        cells: Cells,
        entry: Encoding,
        activation: Spec,
        stored: Sum,
        gate: Gate | None = None,
    ) -> CellForward:
        """Builds the maps of the block, as `BatchForward.build` does in columns."""
        inner = Cells(cells.shape, weights.narrow[0].shape[1])
        maps = [entry.fold(*pair) for pair in weights.expansions(1.0, Stored.input_of(activation), gate)]
        factor = gate.scale if gate else output_bound(activation)
        narrow, offset, back = stored.of(*weights.narrow, factor)
        return CellForward(
            activation,
            gate,
            _stacked(maps, cells, inner),
            CellMap.build(narrow, offset, inner, cells),
            CellMap.build(back, 0.0 * offset, cells, cells),
        )

    def expand(self, be: Backend, y: Cts) -> Cts:
        """Maps y to the inner features stored for the activation, then with a gate its factor. One level."""
        return self.expansion.apply(be, y)

    def multiply(self, be: Backend, active: Cts, factor: Cts) -> Cts:
        """The gate's product. One level."""
        assert self.gate is not None
        return self.gate.multiply(be, active, factor)

    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts:
        """The stored sum of W2 active and y, the residual. One level below both."""
        low = min(be.level(ct) for ct in active)
        back = self.back.apply(be, [be.drop_to(ct, min(be.level(ct), low)) for ct in y])
        return tuple(be.add(a, b) for a, b in zip(self.contraction.apply(be, active), back, strict=True))


def _stacked(maps: Sequence[tuple[Array, Array]], src: Cells, dst: Cells) -> CellMap:
    """Several maps of one input, each into ciphertexts of its own."""
    if len(maps) == 1:
        return CellMap.build(*maps[0], src, dst)
    size = dst.count * dst.shape.tokens
    weight = np.concatenate([np.pad(w, ((0, size - dst.size), (0, 0))) for w, _ in maps])
    bias = np.concatenate([np.pad(b, (0, size - dst.size)) for _, b in maps])
    return CellMap.build(weight, bias, src, Cells(dst.shape, len(maps) * size))
