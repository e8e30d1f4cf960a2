"""Attention of the first token alone: one query, and a vector as the result.

The query is a map from the vector of token 0 to the layout of all tokens, so every token meets it: scores
are sums over the features of a head, a single ciphertext. The mix is not summed over tokens by rotations: a
map from the layout to a vector adds up all places that hold a feature, and that is the projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.attention import sum_tokens
from tacita.packings.multidiagonal.layout import Features
from tacita.packings.multidiagonal.linear import Affine, totals
from tacita.packings.multidiagonal.row_sums import RowSums, dots, real_heads
from tacita.packings.one_text.attention import AttentionSpecs
from tacita.packings.stored import Stored, output_bound
from tacita.packings.vector.layout import CyclicMap, VectorLayout
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
    query: CyclicMap
    key: Affine
    value: Affine
    projection: CyclicMap

    @staticmethod
    def build(weights: AttentionWeights, specs: AttentionSpecs, layout: Features) -> FirstTokenAttention:
        """layout: of x. specs.exit: see `vector.norm.exact_bound`."""
        vector, index = VectorLayout(layout.shape.slots, layout.size), list(layout.index)
        f = float(np.sqrt(specs.score_scale / np.sqrt(layout.width)))
        g, back = 1.0 / specs.attended, specs.attended * output_bound(specs.inverse) / specs.exit
        out, bias = summed(weights.output, weights.output_bias, centred=specs.centred)
        query, entry = weights.query * (f * specs.entry), specs.entry
        return FirstTokenAttention(
            layout=layout,
            vector=vector,
            specs=specs,
            query=CyclicMap.build(query, weights.query_bias * f, [vector.index], index),
            key=Affine(weights.key * (f * entry), weights.key_bias * f, layout, layout),
            value=Affine(weights.value * (g * entry), weights.value_bias * g, layout, layout),
            projection=CyclicMap.build(out * back, bias / specs.exit, index, [vector.index]),
        )

    def scores(self, be: Backend, x: Cts, first: Cts) -> Cts:
        """Scores of query 0, stored for exp: token j of every diagonal holds key j. 2 levels below x and
        first."""
        total = totals(be, [dots(be, self.query.apply(be, first), self.key.apply(be, x))], self.layout)
        return (be.add_vector(total, real_heads(self.layout, Stored.input_of(self.specs.exp).offset)),)

    def sums(self, inverse: Spec) -> RowSums:
        """Over the tokens, everywhere."""
        return RowSums(self.layout, inverse, partial(sum_tokens, layout=self.layout))

    def add_up(self, be: Backend, exps: Cts, masks: Cts) -> Cts:
        """Row sums stored for the inverse, everywhere. One level. masks: first keep[token], not read in two
        phases."""
        sums = self.sums(self.specs.inverse)
        return (sums.plain(be, exps) if self.specs.first else sums.masked(be, exps, masks[:1]),)

    def project(self, be: Backend, x: Cts, exps: Cts, inverse: Cts, first: Cts, masks: Cts) -> Cts:
        """(Attention output + first) / exit, centred or not. 3 levels below x, exps and inverse; first: of
        the residual."""
        weighted = exps[0] if self.specs.first else be.mul(exps[0], masks[0])
        values = [be.mul(v, inverse[0]) for v in self.value.apply(be, x)]
        out = self.projection.apply(be, [be.mul(v, weighted) for v in values])
        return linear_of(self.vector).add(be, out, first, self.specs.back, centred=self.specs.centred)
