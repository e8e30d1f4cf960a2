"""Multi-head attention on diagonals: scores, exponentials, mixing, normalisation, output projection.

x -> Q^T, K^T -> S^T = K Q^T -> exp -> C^T = V^T exp(S)^T -> C / row sums -> projection plus residual (THOR,
section 6.2.2). The columns of all matrices are query tokens, so a row of softmax is summed over diagonals,
which are places and ciphertexts. Softmax is normalised after the product with V. The padding mask is
encrypted: by key token it multiplies V, and in the layout of the scores the exponentials that are summed.
Where softmax has rounds, squares that are already masked stand in place of exponentials
(`operations.softmax_operations`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce

import numpy as np

from tacita.layouts.arrays import Array
from tacita.layouts.multidiagonal import Features, keys_of
from tacita.layouts.rotations import rotate_sum
from tacita.packings.encoding import output_bound
from tacita.packings.multidiagonal.linear import Affine, linear_of, totals
from tacita.packings.multidiagonal.products import Product, transpose
from tacita.packings.operations import RowSums
from tacita.packings.weights import AttentionPlan, Side, crossed, normalised, turned
from tacita.slots.base import Backend, Ct, Cts


def real_heads(layout: Features, value: float | Array) -> Array:
    """value, or that of each head, at the places of heads, zero at the others; a short period."""
    vector = np.zeros(layout.shape.batch)
    vector[: layout.heads] = value
    return vector


def dots(be: Backend, xs: Sequence[Ct], ys: Sequence[Ct]) -> Ct:
    """Sum of products. One level."""
    return be.dot(xs, ys) if len(xs) > 1 else be.mul(xs[0], ys[0])


@dataclass(frozen=True, eq=False)
class DiagonalSums(RowSums):
    """Row sums on diagonals. total: adds up what lies in the rows of one ciphertext; no level. own: those of
    the request's masks in the layout of the exponentials."""

    layout: Features
    total: Callable[[Backend, Ct], Ct]
    own: slice

    def masked(self, be: Backend, exps: Cts, masks: Cts, factor: float) -> Cts:
        """One level below exps, two below masks."""
        return (self.total(be, dots(be, exps, self.scaled(be, masks, factor))),)

    def plain(self, be: Backend, squares: Cts, factor: float) -> Cts:
        """A product with a plaintext, after the sum."""
        sums = self.total(be, reduce(be.add, squares))
        return (be.mul_vector(sums, real_heads(self.layout, factor)),)

    def masks(self, be: Backend, masks: Cts, factor: float) -> Sequence[Ct]:
        """They come as they are, at the places of heads."""
        return [be.mul_vector(m, real_heads(self.layout, factor)) for m in masks[self.own]]

    def centred(self, be: Backend, sums: Cts, offset: float) -> Cts:
        """At the places of heads."""
        return tuple(be.add_vector(ct, real_heads(self.layout, offset)) for ct in sums)


def _crossed(plan: AttentionPlan, sides: Sequence[Array]) -> list[Array]:
    rotary = plan.positional.rotary is not None
    return [*sides, *((crossed(side, plan.heads) for side in sides) if rotary else ())]


def variance(be: Backend, side: Side, squares: Sequence[Ct], layout: Features) -> Cts:
    """Variance of a side's `squared` map, at all places of each head, stored for its rsqrt. One level."""
    total = totals(be, [be.dot(squares, squares) if len(squares) > 1 else be.square(squares[0])], layout)
    return (be.add_vector(total, real_heads(layout, side.offset)),)


def by_pair(layout: Features, table: Array) -> list[Array]:
    """(heads, queries, keys) -> a vector of a period for each ciphertext of scores, S^T[key, query]; zero
    where there is no head."""
    _, t, z = layout.scores.coordinates
    head = np.minimum(z, layout.heads - 1)
    return [np.where(z < layout.heads, table[head, t, key], 0.0) for key in keys_of(layout)]


class Attention:
    """All maps of one attention of every token. Build, then run the methods in order."""

    def __init__(self, plan: AttentionPlan, layout: Features) -> None:
        """Builds all maps. layout: of x."""
        context, betas = plan.specs.context, plan.betas() if plan.normed else ()
        projection = plan.projection(context * output_bound(plan.specs.inverse))
        sides = zip(plan.query(), plan.key(), strict=True)
        # Q and K, one after the other; with rotary positions then their `crossed` rows
        weight, bias = (np.concatenate(_crossed(plan, side)) for side in sides)
        self.query_key = Affine(weight, bias, layout, layout.stacked(len(weight) // layout.size))
        self.plan, self.layout = plan, layout
        self.value = Affine(*plan.value(1.0 / context), layout, layout)
        self.projection = Affine(*projection, layout, layout)
        self.betas = [v for side in _crossed(plan, betas) for v in layout.vectors(side)]
        self.add = linear_of(layout).adder(plan.output)

    def squares(self, be: Backend, x: Cts) -> tuple[Cts, Cts]:
        """Variances of queries and keys. 2 levels."""
        weight, bias = (np.concatenate(part) for part in zip(*self.plan.squared(), strict=True))
        results = Affine(weight, bias, self.layout, self.layout.stacked(2)).apply(be, x)
        half = len(results) // 2
        pairs = zip(self.plan.normed, (results[:half], results[half:]), strict=True)
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
        products = Product(self.layout.scores, shape).apply(be, keys, both[: shape.count])
        return tuple(be.add_vector(ct, v) for ct, v in zip(products, self._added(len(products)), strict=True))

    def _turned(self, be: Backend, cts: Sequence[Ct]) -> Sequence[Ct]:
        if (angles := self.plan.positional.rotary) is None:
            return cts
        (_, t, _), half = self.layout.shape.coordinates, len(cts) // 2
        cos, sin = zip(*(angles.of_features(row, t) for row in self.layout.index), strict=True)
        return turned(be, cts[:half], cts[half:], cos * 2, sin * 2)

    def _added(self, count: int) -> list[Array]:
        """What is added to the scores of each ciphertext: their centre, and the bias of relative
        positions."""
        offsets, added = self.plan.specs.score_offsets(self.layout.heads), self.plan.positional.added
        if added is None:
            return [real_heads(self.layout, offsets)] * count
        return by_pair(self.layout, added * self.plan.specs.score_scale + offsets[:, None, None])

    @property
    def visible(self) -> list[Array] | None:
        """A mask in the layout of the scores, 1 where a query sees the key; None without a limited reach."""
        visible = self.plan.positional.visible
        if visible is None:
            return None
        return by_pair(self.layout, np.broadcast_to(visible, (self.layout.heads, *visible.shape)))

    def mix(self, be: Backend, x: Cts, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(context / bound, row sums stored for the inverse). 3 levels below exps, 1 for the sums; x is
        needed at the exponentials' level at most.

        masks: keep[token], then keep[key] in the layout of the scores. They are not read after rounds, where
        exps are squares.
        """
        specs, level = self.plan.specs, min(be.level(ct) for ct in exps)
        masked = not specs.rounds
        needed = level if masked else max(0, level - 1)  # the mask takes a level from the values
        lowered = [be.drop_to(ct, min(be.level(ct), needed)) for ct in x]
        values = self.value.apply(be, lowered)
        weighed = [be.mul(v, masks[0]) for v in values] if masked else values
        context = Product(self.layout.shape, self.layout.scores).apply(be, weighed, exps)
        return context, self.sums.stored(be, exps, masks if masked else None, specs.inverse)

    @cached_property
    def sums(self) -> RowSums:
        """Over the diagonals of a ciphertext: log2(places) rotations."""
        shape = self.layout.scores
        total = partial(rotate_sum, width=shape.places, step=shape.diagonal)
        return DiagonalSums(self.layout, total, slice(1, None))

    def project(self, be: Backend, x: Cts, context: Cts, inverse: Cts) -> Cts:
        """(Attention output + x) / exit, centred or not. 2 levels below context and inverse, 1 below x, the
        residual."""
        out = self.projection.apply(be, [be.mul(ct, inverse[0]) for ct in context])
        return self.add(be, out, x)
