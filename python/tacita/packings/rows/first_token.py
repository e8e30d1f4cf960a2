"""The last layer when only its first token is read: attention of one query, then a matrix-vector pipeline.

A single query needs one product with K instead of R, no packing of scores and no unpacking of exponentials:
the score of key j stays at token j, repeated over the positions of its head, and the mix is one product with
V and a sum over tokens. What follows works on one vector in vector packing, one ciphertext per tensor
whatever the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.one_text.attention import AttentionSpecs
from tacita.packings.rotations import rotate_sum, spread
from tacita.packings.rows.attention import context_scale
from tacita.packings.rows.heads.gathered import Gathered
from tacita.packings.rows.heads.maps import context_layout
from tacita.packings.rows.heads.windows import HeadWindow
from tacita.packings.rows.layout import FeatureLayout, carried_index
from tacita.packings.rows.linear import Affine
from tacita.packings.stored import Stored, divide, divide_factor
from tacita.packings.vector.layout import CyclicMap, VectorLayout
from tacita.packings.vector.linear import linear_of
from tacita.packings.weights import AttentionWeights, summed
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class FirstTokenAttention:
    """Attention of query 0 over all keys. Build, then run the methods in order.

    carried: x holds token 0 in its second block, in every token, in place of copies. The query is then read
    from there, one level earlier than from a selected token.
    """

    windows: tuple[HeadWindow, ...]
    layout: FeatureLayout
    carried: bool
    vector: VectorLayout
    specs: AttentionSpecs
    query: CyclicMap
    key: Affine
    value: Affine
    projection: CyclicMap
    gathered: Gathered | None

    @staticmethod
    def build(
        weights: AttentionWeights,
        specs: AttentionSpecs,
        layout: FeatureLayout,
        windows: tuple[HeadWindow, ...],
        *,
        carried: bool = False,
    ) -> FirstTokenAttention:
        """layout: of x, with copies. carried: see the class and `layout.can_carry`. specs.exit: see
        `exact_bound`."""
        heads = sum(len(w.heads) for w in windows)
        size = weights.query.shape[0] // heads
        context, vector = context_layout(windows, size), VectorLayout(layout.shape.slots, layout.size)
        f = float(np.sqrt(Stored.input_of(specs.exp).scale / np.sqrt(size)))
        g, places = context_scale(specs), list(context.home)
        back = 1.0 / (divide_factor(specs.inverse) * g * specs.exit)
        out, bias = summed(weights.output, weights.output_bias, centred=specs.centred)
        entry, rows = specs.entry, layout.with_copies(not carried)
        first = carried_index(layout) if carried else vector.index
        return FirstTokenAttention(
            windows=windows,
            layout=layout,
            carried=carried,
            vector=vector,
            specs=specs,
            query=CyclicMap.build(weights.query * (f * entry), weights.query_bias * f, [first], places),
            key=Affine.build(weights.key * (f * entry), weights.key_bias * f, rows, context),
            value=Affine.build(weights.value * (g * entry), weights.value_bias * g, rows, context),
            projection=CyclicMap.build(out * back, bias / specs.exit, places, [vector.index]),
            gathered=Gathered.of(windows),
        )

    def select(self, be: Backend, x: Cts) -> Cts:
        """x -> its first token in vector packing. One level."""
        if not self.carried:
            return (select_token(be, x, self.layout, self.vector),)
        block = self.layout.blocks[0]
        second = be.mul_vector(x[0], np.where(carried_index(self.layout) >= 0, 1.0, 0.0))
        return (rotate_sum(be, second, self.layout.shape.window // block, block),)

    def scores(self, be: Backend, x: Cts, first: Cts) -> Cts:
        """Scores of query 0, stored for exp: token j holds key j, repeated over each head's positions. 3
        levels below x and, unless x carries it, first."""
        queries, keys = self.query.apply(be, x if self.carried else first), self.key.apply(be, x)
        pairs = zip(self.windows, queries, keys, strict=True)
        return tuple(self._window_scores(be, window, be.mul(q, k)) for window, q, k in pairs)

    def _window_scores(self, be: Backend, window: HeadWindow, product: Ct) -> Ct:
        starts = np.where(
            self._heads(window) & (np.arange(window.shape.window) % window.width == 0), 1.0, 0.0
        )
        totals = be.mul_vector(rotate_sum(be, product, window.width), starts)
        scores = spread(be, totals, window.width)
        return be.add_vector(
            scores, np.where(self._heads(window), Stored.input_of(self.specs.exp).offset, 0.0)
        )

    def mix(self, be: Backend, x: Cts, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(context / bound, row sums stored for the inverse), the same in every token, at the heads'
        positions, one ciphertext of context a window and one of all sums. One level below exps.

        masks: the last one is keep[j] at all positions of token j. x is needed two levels above the
        exponentials' at most.
        """
        level = min(be.level(e) for e in exps)
        values = self.value.apply(be, [be.drop_to(ct, min(be.level(ct), level + 2)) for ct in x])
        pairs = [
            self._mix_window(be, *each, masks[-1])
            for each in zip(range(len(self.windows)), exps, values, strict=True)
        ]
        context, sums = zip(*pairs, strict=True)
        return tuple(context), (reduce(be.add, sums),) if self.gathered else tuple(sums)

    def _mix_window(self, be: Backend, number: int, exps: Ct, value: Ct, mask: Ct) -> tuple[Ct, Ct]:
        window, form = self.windows[number], Stored.input_of(self.specs.inverse)
        at = self.gathered.places(number) if self.gathered else self._heads(window)
        places = np.where(at, 1.0, 0.0)
        mask = be.drop_to(mask, min(be.level(mask), be.level(value)))
        parts = [be.mul(value, mask), be.mul_vector(mask, places * form.scale)]
        shape = window.shape
        context, sums = (rotate_sum(be, be.mul(exps, p), shape.tokens, shape.window) for p in parts)
        return context, be.add_vector(sums, places * form.offset)

    def attend(self, be: Backend, context: Cts, sums: Cts) -> Cts:
        """context / sums at the heads' positions, zero elsewhere, in [-1, 1]. Levels: the inverse's, and one
        more below the sums of several windows."""
        if self.gathered:
            return tuple(self.gathered.divide(be, context, sums[0], self.specs.inverse))
        return tuple(divide(be, c, s, self.specs.inverse) for c, s in zip(context, sums, strict=True))

    def project(self, be: Backend, first: Cts, attended: Cts) -> Cts:
        """(Attention output + first) / exit, centred or not. One level below both. first: of the residual."""
        out = self.projection.apply(be, attended)
        return linear_of(self.vector).add(be, out, first, self.specs.back, centred=self.specs.centred)

    def _heads(self, window: HeadWindow) -> Array:
        """bool [window]: positions of real heads at full width."""
        inside: Array = np.arange(window.shape.window) < window.width * len(window.heads)
        return inside


def select_token(be: Backend, x: Sequence[Ct], layout: FeatureLayout, dst: VectorLayout) -> Ct:
    """Token 0 of rows-packed x in vector packing. One level; log2(slots/period) + ciphertexts - 1
    rotations."""
    window, total = layout.shape.window, None
    for i, ct in enumerate(x):
        mask = np.zeros(layout.shape.slots)
        mask[:window] = np.where(layout.home[i] >= 0, 1.0, 0.0)
        part = be.rotate(be.mul_vector(ct, mask), -i * window)
        total = part if total is None else be.add(total, part)
    return spread(be, total, dst.slots // dst.period, dst.period)
