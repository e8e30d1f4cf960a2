"""Multi-head attention on diagonals: scores, exponentials, mixing, normalisation, output projection.

x -> Q^T, K^T -> S^T = K Q^T -> exp -> C^T = V^T exp(S)^T -> C / row sums -> projection plus residual (THOR,
section 6.2.2). The columns of all matrices are query tokens, so a row of softmax is summed over diagonals,
which are places and ciphertexts. Softmax is normalised after the product with V. The padding mask is
encrypted: by key token it multiplies V, and in the layout of the scores the exponentials that are summed.
Where softmax has two phases, squares that are already masked stand in place of exponentials (`row_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tacita.layouts.arrays import Array, IntArray
from tacita.layouts.multidiagonal import Features, MultiDiagonal
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.packings.encoding import output_bound
from tacita.packings.multidiagonal.linear import Affine, linear_of, totals
from tacita.packings.multidiagonal.products import Product, transpose
from tacita.packings.multidiagonal.softmax import RowSums, dots, real_heads, row_sums
from tacita.packings.shared.first_token import TextQuery
from tacita.packings.weights import AttentionPlan, RotaryAngles, Side, crossed, normalised, turned
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


def scores_layout(layout: Features) -> MultiDiagonal:
    """The layout of S^T, which has as many rows as columns."""
    return layout.shape.with_rows(layout.shape.columns)


def query_key(plan: AttentionPlan, layout: Features) -> Affine:
    """Q and K, one after the other, scaled so that their products are scores in stored form; with rotary
    positions then their `crossed` rows."""
    weight, bias = (
        np.concatenate(_crossed(plan, part)) for part in zip(plan.query(), plan.key(), strict=True)
    )
    return Affine(weight, bias, layout, layout.stacked(len(weight) // layout.size))


def _crossed(plan: AttentionPlan, sides: Sequence[Array]) -> list[Array]:
    """The sides, and with rotary positions their `crossed` rows."""
    rotary = plan.weights.positional.rotary is not None
    return [*sides, *((crossed(side, plan.heads) for side in sides) if rotary else ())]


def variance(be: Backend, side: Side, squares: Sequence[Ct], layout: Features) -> Cts:
    """Variance of the results of a side's `squared` map, at all places of each head, stored for its rsqrt.
    One level."""
    total = totals(be, [be.dot(squares, squares) if len(squares) > 1 else be.square(squares[0])], layout)
    return (be.add_vector(total, real_heads(layout, side.offset)),)


def rotary_of(angles: RotaryAngles, layout: Features) -> tuple[list[Array], list[Array]]:
    """Cosines and sines for each ciphertext of a tensor, of one period."""
    _, t, _ = layout.shape.coordinates
    cos, sin = zip(*(angles.of_features(row, t) for row in layout.index), strict=True)
    return list(cos), list(sin)


def by_pair(layout: Features, table: Array) -> list[Array]:
    """(heads, queries, keys) -> a vector of a period for each ciphertext of scores, S^T[key, query]; zero
    where there is no head."""
    shape = scores_layout(layout)
    q, t, z = shape.coordinates
    firsts, head = shape.places * np.arange(shape.count), np.minimum(z, layout.heads - 1)
    keys = [(first + q + t) % shape.columns for first in firsts]
    return [np.where(z < layout.heads, table[head, t, key], 0.0) for key in keys]


@dataclass(frozen=True, eq=False)
class Attention:
    """All maps of one attention of every token. Build with `Attention.build`; then run the methods in
    order."""

    plan: AttentionPlan
    layout: Features
    query_key: Affine
    value: Affine
    projection: Affine
    betas: list[Array]
    add: Callable[[Backend, Cts, Cts], Cts]

    @staticmethod
    def build(plan: AttentionPlan, layout: Features) -> Attention:
        """Builds all maps. layout: of x."""
        context, betas = plan.specs.context, plan.betas() if plan.weights.normed else ()
        projection = plan.projection(context * output_bound(plan.specs.inverse))
        return Attention(
            plan=plan,
            layout=layout,
            query_key=query_key(plan, layout),
            value=Affine(*plan.value(1.0 / context), layout, layout),
            projection=Affine(*projection, layout, layout),
            betas=[v for side in _crossed(plan, betas) for v in layout.vectors(side)],
            add=linear_of(layout).adder(plan.output),
        )

    @cached_property
    def _scores(self) -> MultiDiagonal:
        return scores_layout(self.layout)

    def squares(self, be: Backend, x: Cts) -> tuple[Cts, Cts]:
        """Variances of queries and keys. 2 levels."""
        sides = self.plan.normed.queries, self.plan.normed.keys
        weight, bias = (np.concatenate(part) for part in zip(*self.plan.squared(), strict=True))
        results = Affine(weight, bias, self.layout, self.layout.stacked(2)).apply(be, x)
        half = len(results) // 2
        pairs = zip(sides, (results[:half], results[half:]), strict=True)
        queries, keys = (variance(be, side, part, self.layout) for side, part in pairs)
        return queries, keys

    def scores(self, be: Backend, x: Cts, *roots: Cts) -> Cts:
        """Maps x (layout, / entry) to the scores stored for exp. 4 levels; one more with roots of normalised
        queries and keys, and one with rotary positions."""
        projections, shape = self.query_key.apply(be, x), self.layout.shape
        if roots:
            both_roots = [root[0] for root in roots for _ in range(shape.count)]
            projections = tuple(
                normalised(be, projections, both_roots * (len(projections) // len(both_roots)), self.betas)
            )
        both = self._turned(be, projections)
        keys = transpose(be, both[shape.count :], shape)
        products = Product(self._scores, shape).apply(be, keys, both[: shape.count])
        return tuple(be.add_vector(ct, v) for ct, v in zip(products, self._added(len(products)), strict=True))

    def _turned(self, be: Backend, cts: Sequence[Ct]) -> Sequence[Ct]:
        """Queries and keys at their positions."""
        if self.plan.weights.positional.rotary is None:
            return cts
        (cos, sin), half = rotary_of(self.plan.weights.positional.rotary, self.layout), len(cts) // 2
        return turned(be, cts[:half], cts[half:], cos * 2, sin * 2)

    def _added(self, count: int) -> list[Array]:
        """What is added to the scores of each ciphertext: their centre, and the bias of relative
        positions."""
        offsets, added = self.plan.specs.score_offsets(self.layout.heads), self.plan.weights.positional.added
        if added is None:
            return [real_heads(self.layout, offsets)] * count
        return by_pair(self.layout, added * self.plan.specs.score_scale + offsets[:, None, None])

    @property
    def visible(self) -> list[Array] | None:
        """A mask in the layout of the scores, 1 where a query sees the key; None without a limited reach."""
        visible = self.plan.weights.positional.visible
        if visible is None:
            return None
        return by_pair(self.layout, np.broadcast_to(visible, (self.layout.heads, *visible.shape)))

    def mix(self, be: Backend, x: Cts, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(context / bound, row sums stored for the inverse). 3 levels below exps, 1 for the sums; x is
        needed at the exponentials' level at most.

        masks: keep[token], then keep[key] in the layout of the scores. They are not read in two phases,
        where exps are squares.
        """
        masked, level = self.plan.specs.phases is None, min(be.level(ct) for ct in exps)
        needed = level if masked else max(0, level - 1)  # the mask takes a level from the values
        lowered = [be.drop_to(ct, min(be.level(ct), needed)) for ct in x]
        values = self.value.apply(be, lowered)
        weighed = [be.mul(v, masks[0]) for v in values] if masked else values
        context = Product(self.layout.shape, self._scores).apply(be, weighed, exps)
        sums = self.sums()
        return context, (sums.masked(be, exps, masks[1:]) if masked else sums.plain(be, exps),)

    def sums(self, *, first_phase: bool = False) -> RowSums:
        """Over the diagonals of a ciphertext: log2(places) rotations."""
        shape = self._scores
        total = partial(rotate_sum, width=shape.places, step=shape.diagonal)
        return row_sums(self.plan.specs, self.layout, total, first_phase=first_phase)

    def project(self, be: Backend, x: Cts, context: Cts, inverse: Cts) -> Cts:
        """(Attention output + x) / exit, centred or not. 2 levels below context and inverse, 1 below x, the
        residual."""
        out = self.projection.apply(be, [be.mul(ct, inverse[0]) for ct in context])
        return self.add(be, out, x)


def sum_tokens(be: Backend, ct: Ct, layout: Features) -> Ct:
    """The sum over tokens, everywhere, of what is the same in every diagonal. log2(tokens) rotations, no
    level."""
    return rotate_sum(be, ct, layout.shape.columns, layout.shape.batch)


# Attention of the first token alone: one query, and a vector as the result.
#
# The query is a map from the vector of token 0 to the layout of all tokens, so every token meets it: scores
# are sums over the features of a head, a single ciphertext. The mix is not summed over tokens by rotations: a
# map from the layout to a vector adds up all places that hold a feature, and that is the projection.


def selection(layout: Features) -> CyclicMap:
    """Token 0 as a vector. One level."""
    return _same(layout, layout.first)


def _same(layout: Features, places: Sequence[Array]) -> CyclicMap:
    vector = VectorLayout(layout.shape.slots, layout.size)
    return CyclicMap.build(np.eye(layout.size), np.zeros(layout.size), places, [vector.index])


class FirstTokenAttention(TextQuery):
    """Attention of query 0 over all keys. Build, then run the methods in order."""

    def __init__(self, plan: AttentionPlan, layout: Features) -> None:
        """Builds all maps. layout: of x."""
        vector, bound = VectorLayout(layout.shape.slots, layout.size), plan.specs.attended
        super().__init__(
            plan,
            Affine,
            (layout, layout),
            list(layout.index),
            vector.index,
            vector,
            values=1.0 / bound,
            attended=1.0 / (bound * output_bound(plan.specs.inverse)),
        )
        self._layout = layout

    @property
    def _token_of_slot(self) -> IntArray:
        return self._layout.shape.coordinates[1]

    def _variances(self, be: Backend, side: Side, squares: Cts) -> Cts:
        return variance(be, side, squares, self._layout)

    def _scored(self, be: Backend, queries: Cts, keys: Cts, first: Cts) -> Cts:
        """Token j of every diagonal holds key j."""
        total = totals(be, [dots(be, queries, keys)], self._layout)
        specs, added = self.plan.specs, self.plan.weights.positional.added
        offset = specs.score_offsets(self._layout.heads)[:, None]
        scores = offset if added is None else offset + added[:, 0] * specs.score_scale
        return (be.add_vector(total, self._by_key(scores)),)

    @property
    def visible(self) -> list[Array] | None:
        """A mask, 1 at the keys that query 0 sees; None where it sees all."""
        positional = self.plan.weights.positional
        if positional.visible is None or not positional.kept_from(0):
            return None
        return [self._by_key(np.tile(positional.visible[0], (self._layout.heads, 1)))]

    def _by_key(self, table: Array) -> Array:
        """Spreads a table (heads, keys or 1): at token j of a diagonal that of key j; zero where there is no
        head."""
        diagonal = np.zeros((table.shape[1], self._layout.shape.batch))
        diagonal[:, : self._layout.heads] = table.T
        return diagonal.reshape(-1)

    def sums(self, *, first_phase: bool = False) -> RowSums:
        """Over the tokens, everywhere."""
        total = partial(sum_tokens, layout=self._layout)
        return row_sums(self.plan.specs, self._layout, total, first_phase=first_phase)

    def add_up(self, be: Backend, exps: Cts, masks: Cts) -> Cts:
        """Row sums stored for the inverse, everywhere. One level. masks: first keep[token], not read in two
        phases."""
        sums = self.sums()
        return (sums.plain(be, exps) if self.plan.specs.phases else sums.masked(be, exps, masks[:1]),)

    def project(self, be: Backend, x: Cts, exps: Cts, inverse: Cts, first: Cts, masks: Cts) -> Cts:
        """(Attention output + first) / exit, centred or not. 3 levels below x, exps and inverse; first: of
        the residual."""
        weighted = exps[0] if self.plan.specs.phases else be.mul(exps[0], masks[0])
        values = [be.mul(v, inverse[0]) for v in self.value.apply(be, x)]
        return self._ended(be, [be.mul(v, weighted) for v in values], first)


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean over tokens, as a vector. layout: of what is averaged."""

    layout: Features

    @cached_property
    def total(self) -> CyclicMap:
        """The sum over tokens, made when it is needed: a vector for every feature."""
        return _same(self.layout, list(self.layout.index))

    def apply(self, be: Backend, x: Cts, masks: Cts) -> Cts:
        """Averages the tokens. masks: the first is 1/length at the real tokens. Two levels."""
        return self.total.apply(be, [be.mul(ct, masks[0]) for ct in x])
