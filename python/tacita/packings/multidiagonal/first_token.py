"""Attention of the first token alone: one query, and a vector as the result.

The query is a map from the vector of token 0 to the layout of all tokens, so every token meets it: scores
are sums over the features of a head, a single ciphertext. The mix is not summed over tokens by rotations: a
map from the layout to a vector adds up all places that hold a feature, and that is the projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.layouts.multidiagonal import Features
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.packings.multidiagonal.attention import betas_of, rotary_of, sum_tokens, variance
from tacita.packings.multidiagonal.linear import Affine, totals
from tacita.packings.multidiagonal.row_sums import RowSums, dots
from tacita.packings.one_text.attention import AttentionSpecs
from tacita.packings.positional import Positional, turned
from tacita.packings.stored import Normed, normalised, output_bound
from tacita.packings.vector.answer import asking
from tacita.packings.vector.linear import linear_of
from tacita.packings.weights import AttentionWeights, summed
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


def selection(layout: Features) -> CyclicMap:
    """Token 0 as a vector. One level."""
    return _same(layout, layout.first)


def mean_map(layout: Features) -> CyclicMap:
    """The sum over tokens as a vector. One level."""
    return _same(layout, list(layout.index))


def _same(layout: Features, places: Sequence[Array]) -> CyclicMap:
    vector = VectorLayout(layout.shape.slots, layout.size)
    return CyclicMap.build(np.eye(layout.size), np.zeros(layout.size), places, [vector.index])


@dataclass(frozen=True, eq=False)
class FirstTokenAttention:
    """Attention of query 0 over all keys. Build, then run the methods in order."""

    layout: Features
    vector: VectorLayout
    specs: AttentionSpecs
    positional: Positional
    normed: Normed | None
    query: CyclicMap
    key: Affine
    value: Affine
    projection: CyclicMap

    @staticmethod
    def build(weights: AttentionWeights, specs: AttentionSpecs, layout: Features) -> FirstTokenAttention:
        """Builds all maps. layout: of x. specs.exit: see `vector.norm.exact_bound`."""
        vector, index = VectorLayout(layout.shape.slots, layout.size), list(layout.index)
        f = float(np.sqrt(specs.score_scale / np.sqrt(layout.width)))
        g, back = 1.0 / specs.attended, specs.attended * output_bound(specs.inverse) / specs.exit
        out, bias = summed(weights.output, weights.output_bias, centred=specs.ending.centred)
        entry = specs.entry
        return FirstTokenAttention(
            layout=layout,
            vector=vector,
            specs=specs,
            positional=weights.positional,
            normed=weights.normed,
            query=asking(weights, (f * entry, f), layout.heads, vector.index, index),
            key=Affine(weights.key * (f * entry), specs.key_bias(weights.key_bias) * f, layout, layout),
            value=Affine(weights.value * (g * entry), weights.value_bias * g, layout, layout),
            projection=CyclicMap.build(out * back, bias / specs.exit, index, [vector.index]),
        )

    def squares(self, be: Backend, x: Cts, first: Cts) -> tuple[Cts, Cts]:
        """Variances of the query, for every key, and of the keys. 2 levels below x and first."""
        assert self.normed is not None
        queries, keys, entry = self.normed.queries, self.normed.keys, self.specs.entry
        (ours, shift), (theirs, moved) = queries.squared, keys.squared
        query_map = CyclicMap.build(ours * entry, shift, [self.vector.index], list(self.layout.index))
        key_map = Affine(theirs * entry, moved, self.layout, self.layout)
        query_variance = variance(be, queries, query_map.apply(be, first), self.layout)
        return query_variance, variance(be, keys, key_map.apply(be, x), self.layout)

    def scores(self, be: Backend, x: Cts, first: Cts, *roots: Cts) -> Cts:
        """Scores of query 0, stored for exp: token j of every diagonal holds key j. 2 levels below x and
        first; one more below first with rotary positions, by which the query is turned back for each key, and
        one below both with roots of normalised queries and keys."""
        queries, keys = self.query.apply(be, first), self.key.apply(be, x)
        if roots:
            count, turning = len(keys), self.positional.rotary is not None
            betas = betas_of(self.normed, self.layout, self.specs, crossing=turning)
            further = betas[2 * count : 3 * count]  # of the query's crossed rows
            queries = tuple(normalised(be, queries, roots[0] * len(queries), betas[:count] + further))
            keys = tuple(normalised(be, keys, roots[1] * count, betas[count : 2 * count]))
        if self.positional.rotary is not None:
            (cos, sin), half = rotary_of(self.positional.rotary.back, self.layout), len(queries) // 2
            queries = tuple(turned(be, queries[:half], queries[half:], cos, sin))
        total = totals(be, [dots(be, queries, keys)], self.layout)
        offset, added = self.specs.score_offsets(self.layout.heads)[:, None], self.positional.added
        scores = offset if added is None else offset + added[:, 0] * self.specs.score_scale
        return (be.add_vector(total, self._by_key(scores)),)

    @property
    def visible(self) -> list[Array] | None:
        """A mask, 1 at the keys that query 0 sees; None where it sees all."""
        visible = self.positional.visible
        return (
            None
            if visible is None or not self.positional.kept_from(0)
            else [self._by_key(np.tile(visible[0], (self.layout.heads, 1)))]
        )

    def _by_key(self, table: Array) -> Array:
        """Spreads a table (heads, keys or 1): at token j of a diagonal that of key j; zero where there is no
        head."""
        diagonal = np.zeros((table.shape[1], self.layout.shape.batch))
        diagonal[:, : self.layout.heads] = table.T
        return diagonal.reshape(-1)

    def sums(self, inverse: Spec, steepest: float | None = None, room: float = 1.0) -> RowSums:
        """Over the tokens, everywhere."""
        return RowSums(self.layout, inverse, partial(sum_tokens, layout=self.layout), steepest, room)

    def add_up(self, be: Backend, exps: Cts, masks: Cts) -> Cts:
        """Row sums stored for the inverse, everywhere. One level. masks: first keep[token], not read in two
        phases."""
        sums = self.sums(self.specs.inverse)
        return (sums.plain(be, exps) if self.specs.phases else sums.masked(be, exps, masks[:1]),)

    def project(self, be: Backend, x: Cts, exps: Cts, inverse: Cts, first: Cts, masks: Cts) -> Cts:
        """(Attention output + first) / exit, centred or not. 3 levels below x, exps and inverse; first: of
        the residual."""
        weighted = exps[0] if self.specs.phases else be.mul(exps[0], masks[0])
        values = [be.mul(v, inverse[0]) for v in self.value.apply(be, x)]
        out = self.projection.apply(be, [be.mul(v, weighted) for v in values])
        return linear_of(self.vector).add(be, out, first, self.specs.back, self.specs.ending)


# From the last tensor to the ciphertexts of the answer: by way of a vector, laid out as `response` says.


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean over tokens, as a vector. layout: of what is averaged."""

    layout: Features

    @cached_property
    def total(self) -> CyclicMap:
        """Made when it is needed: a vector for every feature."""
        return mean_map(self.layout)

    def apply(self, be: Backend, x: Cts, masks: Cts) -> Cts:
        """Averages the tokens. masks: the first is 1/length at the real tokens. Two levels."""
        return self.total.apply(be, [be.mul(ct, masks[0]) for ct in x])
