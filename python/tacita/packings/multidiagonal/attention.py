"""Multi-head attention on diagonals: scores, exponentials, mixing, normalisation, output projection.

x -> Q^T, K^T -> S^T = K Q^T -> exp -> C^T = V^T exp(S)^T -> C / row sums -> projection plus residual (THOR,
section 6.2.2). The columns of all matrices are query tokens, so a row of softmax is summed over diagonals,
which are places and ciphertexts. Softmax is normalised after the product with V. The padding mask is
encrypted: by key token it multiplies V, and in the layout of the scores the exponentials that are summed.
Where softmax has two phases, squares that are already masked stand in place of exponentials (`row_sums`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.layouts.multidiagonal import Features, MultiDiagonal
from tacita.layouts.rotations import rotate_sum
from tacita.packings.multidiagonal.linear import Affine, linear_of, totals
from tacita.packings.multidiagonal.products import Product, transpose
from tacita.packings.multidiagonal.row_sums import RowSums, real_heads
from tacita.packings.one_text.attention import AttentionSpecs
from tacita.packings.positional import Positional, RotaryAngles, crossed, turned
from tacita.packings.stored import Normed, Side, normalised, output_bound
from tacita.packings.weights import AttentionWeights, summed
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


def scores_layout(layout: Features) -> MultiDiagonal:
    """The layout of S^T, which has as many rows as columns."""
    return layout.shape.with_rows(layout.shape.columns)


def query_key(weights: AttentionWeights, layout: Features, specs: AttentionSpecs) -> Affine:
    """Q and K, one after the other, scaled so that their products are scores in stored form; with rotary
    positions then their `crossed` rows."""
    factor = float(np.sqrt(specs.score_scale / np.sqrt(layout.width)))
    maps = [weights.query, weights.key]
    biases = [weights.query_bias, specs.key_bias(weights.key_bias)]
    if weights.positional.rotary is not None:
        maps += [crossed(w, layout.heads) for w in maps]
        biases += [crossed(b, layout.heads) for b in biases]
    weight, bias = np.concatenate(maps) * (factor * specs.entry), np.concatenate(biases) * factor
    return Affine(weight, bias, layout, layout.stacked(len(maps)))


def betas_of(
    normed: Normed | None, layout: Features, specs: AttentionSpecs, *, crossing: bool
) -> list[Array]:
    """What normalised queries and keys have added, in the order of `query_key`."""
    if normed is None:
        return []
    factor = float(np.sqrt(specs.score_scale / np.sqrt(layout.width)))
    sides = [normed.queries.beta * factor, normed.keys.beta * factor]
    sides += [crossed(side, layout.heads) for side in sides] if crossing else []
    return [v for side in sides for v in layout.vectors(side)]


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

    layout: Features
    specs: AttentionSpecs
    query_key: Affine
    value: Affine
    projection: Affine
    positional: Positional
    normed: Normed | None
    betas: list[Array]

    @staticmethod
    def build(weights: AttentionWeights, specs: AttentionSpecs, layout: Features) -> Attention:
        """Builds all maps. layout: of x."""
        scale, back = 1.0 / specs.context, specs.context * output_bound(specs.inverse) / specs.exit
        output = weights.output * back, weights.output_bias / specs.exit
        return Attention(
            layout=layout,
            specs=specs,
            query_key=query_key(weights, layout, specs),
            value=Affine(weights.value * (scale * specs.entry), weights.value_bias * scale, layout, layout),
            projection=Affine(*summed(*output, centred=specs.ending.centred), layout, layout),
            positional=weights.positional,
            normed=weights.normed,
            betas=betas_of(weights.normed, layout, specs, crossing=weights.positional.rotary is not None),
        )

    @cached_property
    def _scores(self) -> MultiDiagonal:
        return scores_layout(self.layout)

    def squares(self, be: Backend, x: Cts) -> tuple[Cts, Cts]:
        """Variances of queries and keys. 2 levels."""
        assert self.normed is not None
        sides, entry = (self.normed.queries, self.normed.keys), self.specs.entry
        weight, bias = (np.concatenate(part) for part in zip(*(side.squared for side in sides), strict=True))
        results = Affine(weight * entry, bias, self.layout, self.layout.stacked(2)).apply(be, x)
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
        if self.positional.rotary is None:
            return cts
        (cos, sin), half = rotary_of(self.positional.rotary, self.layout), len(cts) // 2
        return turned(be, cts[:half], cts[half:], cos * 2, sin * 2)

    def _added(self, count: int) -> list[Array]:
        """What is added to the scores of each ciphertext: their centre, and the bias of relative
        positions."""
        offsets, added = self.specs.score_offsets(self.layout.heads), self.positional.added
        if added is None:
            return [real_heads(self.layout, offsets)] * count
        return by_pair(self.layout, added * self.specs.score_scale + offsets[:, None, None])

    @property
    def visible(self) -> list[Array] | None:
        """A mask in the layout of the scores, 1 where a query sees the key; None without a limited reach."""
        if self.positional.visible is None:
            return None
        tokens = self.layout.shape.columns
        return by_pair(
            self.layout, np.broadcast_to(self.positional.visible, (self.layout.heads, tokens, tokens))
        )

    def mix(self, be: Backend, x: Cts, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(context / bound, row sums stored for the inverse). 3 levels below exps, 1 for the sums; x is
        needed at the exponentials' level at most.

        masks: keep[token], then keep[key] in the layout of the scores. They are not read in two phases,
        where exps are squares.
        """
        masked, level = self.specs.phases is None, min(be.level(ct) for ct in exps)
        needed = level if masked else max(0, level - 1)  # the mask takes a level from the values
        lowered = [be.drop_to(ct, min(be.level(ct), needed)) for ct in x]
        values = self.value.apply(be, lowered)
        weighed = [be.mul(v, masks[0]) for v in values] if masked else values
        context = Product(self.layout.shape, self._scores).apply(be, weighed, exps)
        sums = self.sums(self.specs.inverse)
        return context, (sums.masked(be, exps, masks[1:]) if masked else sums.plain(be, exps),)

    def sums(self, inverse: Spec, steepest: float | None = None, room: float = 1.0) -> RowSums:
        """Over the diagonals of a ciphertext: log2(places) rotations."""
        shape = self._scores
        total = partial(rotate_sum, width=shape.places, step=shape.diagonal)
        return RowSums(self.layout, inverse, total, steepest, room)

    def project(self, be: Backend, x: Cts, context: Cts, inverse: Cts) -> Cts:
        """(Attention output + x) / exit, centred or not. 2 levels below context and inverse, 1 below x, the
        residual."""
        out = self.projection.apply(be, [be.mul(ct, inverse[0]) for ct in context])
        return linear_of(self.layout).add(be, out, x, self.specs.back, self.specs.ending)


def sum_tokens(be: Backend, ct: Ct, layout: Features) -> Ct:
    """The sum over tokens, everywhere, of what is the same in every diagonal. log2(tokens) rotations, no
    level."""
    return rotate_sum(be, ct, layout.shape.columns, layout.shape.batch)
