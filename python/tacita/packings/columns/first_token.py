"""The last attention of a batch when only the first token is read: one query per sequence, then cells.

x0, the first token in every token slot, is one masking product and log2(tokens) rotations per column. Scores
of that one query need one product per column instead of one per diagonal, softmax runs on one ciphertext per
head, and what follows (projection, LayerNorms, feed-forward, pooler) on hidden / tokens ciphertexts instead
of `hidden` ones. The papers run all tokens to the end and pack [CLS] before the pooler (ARION) or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacita.layouts.columns import Array, Cells, Columns, token_total
from tacita.packings.columns.attention import completed, variance
from tacita.packings.columns.cells import CellMap, RowSquares
from tacita.packings.columns.linear import ColumnMap, Cts, dot
from tacita.packings.encoding import Argument, WeightBias, apply
from tacita.packings.shared.first_token import OneQuery
from tacita.packings.weights import AttentionPlan, RotaryAngles, Side, turned
from tacita.slots.base import Backend, Ct


class BatchFirstToken(OneQuery):
    """Attention of token 0 over all tokens; the result is in cells. Methods in order. One lane only."""

    def __init__(self, plan: AttentionPlan, columns: Columns) -> None:
        """Builds all maps. columns: of x."""
        self.plan, self.columns = plan, columns
        self.query, self.key = self._map(plan.query()), self._map(plan.key())
        self.value = self._map(plan.value(1.0 / plan.specs.attended))
        matrix, bias = plan.projection(plan.specs.attended)
        both = np.concatenate([matrix, plan.output.fold_residual(columns.size)], axis=1)
        self._projection = CellMap.gather(both, bias, Cells(columns.shape, columns.size))
        self._squares = RowSquares.build(plan, columns)

    def _map(self, pair: WeightBias) -> ColumnMap:
        return ColumnMap.build([(pair[0], self.columns)], pair[1], self.columns)

    def select(self, be: Backend, x: Cts) -> Cts:
        """Copies the first token of x into every token. One level."""
        shape = self.columns.shape
        first = shape.at_tokens(np.arange(shape.tokens) == 0)
        return tuple(token_total(be, be.mul_vector(ct, first.astype(np.float64)), shape) for ct in x)

    def squares(self, be: Backend, x: Cts, first: Cts) -> tuple[Cts, Cts]:
        """Variances of the query and of the keys, where they are normalised: a ciphertext a head. 2
        levels."""
        ours, theirs = (self._map(pair) for pair in self.plan.squared())
        queries, keys = self.plan.normed
        return self._variances(be, queries, ours.apply(be, first)), self._variances(
            be, keys, theirs.apply(be, x)
        )

    def _variances(self, be: Backend, side: Side, squares: Cts) -> Cts:
        return tuple(variance(be, side, part) for part in self._by_head(squares))

    def _by_head(self, cts: Sequence[Ct]) -> list[Sequence[Ct]]:
        """The columns of each head."""
        size = self.plan.head_size
        return [cts[i : i + size] for i in range(0, len(cts), size)]

    def _normalised(self, be: Backend, queries: Cts, keys: Cts, roots: Sequence[Cts]) -> tuple[Cts, Cts]:
        ours, theirs = (
            tuple(
                ct
                for part, root in zip(self._by_head(cts), side, strict=True)
                for ct in completed(be, part, root, [complex(b) for b in beta[: self.plan.head_size]])
            )
            for cts, side, beta in zip((queries, keys), roots, self.plan.betas(), strict=True)
        )
        return ours, theirs

    def _turned(self, be: Backend, queries: Cts, back: RotaryAngles) -> Cts:
        features, tokens = self.columns.index[:, :1], np.arange(self.columns.shape.tokens)
        angles = back.of_features(features % self.plan.head_size, tokens)
        cos, sin = ([self.columns.shape.at_tokens(row) for row in side] for side in angles)
        return tuple(turned(be, queries, self._crossed(be, queries), cos, sin))

    def _crossed(self, be: Backend, queries: Cts) -> list[Ct]:
        """Orders the columns for the sines: of each head the second half of its columns, negated, then the
        first."""
        half = self.plan.head_size // 2
        return [
            ct
            for head in self._by_head(queries)
            for ct in (*(be.neg(ct) for ct in head[half:]), *head[:half])
        ]

    def _scored(self, be: Backend, queries: Cts, keys: Cts, first: Cts) -> Cts:
        """One ciphertext per head."""
        pairs = zip(self._by_head(queries), self._by_head(keys), strict=True)
        scores = [self._placed(be, dot(be, q, k), head) for head, (q, k) in enumerate(pairs)]
        if self._squares is None:
            return tuple(scores)
        return tuple(be.sub(s, self._squares.apply(be, first, head)) for head, s in enumerate(scores))

    def _placed(self, be: Backend, scores: Ct, head: int) -> Ct:
        """Stored for exp, with what relative positions add."""
        form, added = Argument.of(self.plan.specs.exp), self.plan.positional.added
        if added is None:
            return be.add_const(scores, form.offset)
        return be.add_vector(scores, self.columns.shape.at_tokens(added[head, 0] * form.scale + form.offset))

    @property
    def visible(self) -> list[Array] | None:
        """A mask for each head, 1 at the keys that the query sees; None without a limited reach."""
        visible = self.plan.positional.visible
        return None if visible is None else [self.columns.shape.at_tokens(visible[0])] * self.plan.heads

    def weigh(self, be: Backend, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(exp * mask, its sums over tokens stored for the inverse). Two levels below exps."""
        form, shape = Argument.of(self.plan.specs.inverse), self.columns.shape
        weighed = tuple(be.mul(e, masks[0]) for e in exps)
        sums = (be.mul_const(token_total(be, w, shape), form.scale) for w in weighed)
        return weighed, tuple(be.add_const(s, form.offset) for s in sums)

    def attend(self, be: Backend, weighed: Cts, sums: Cts) -> Cts:
        """Attention weights: weighed / sums, in [0, 1]. Levels: the inverse's and one."""
        roots = (apply(be, s, self.plan.specs.inverse) for s in sums)
        return tuple(be.mul(w, r) for w, r in zip(weighed, roots, strict=True))

    def project(self, be: Backend, x: Cts, first: Cts, attention: Cts) -> Cts:
        """The stored sum of attention output and first, the residual's, in cells. 3 levels below x, 2 below
        attention, 1 below first."""
        level, shape = min(be.level(a) for a in attention), self.columns.shape
        values = self.value.apply(be, [be.drop_to(ct, min(be.level(ct), level + 1)) for ct in x])
        pairs = zip(self._by_head(values), attention, strict=True)
        mixed = [token_total(be, be.mul(v, share), shape) for head, share in pairs for v in head]
        low = min(be.level(ct) for ct in (*mixed, *first))
        return self._projection.apply(be, [be.drop_to(ct, low) for ct in (*mixed, *first)])
