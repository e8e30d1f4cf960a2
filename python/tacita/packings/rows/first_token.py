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

from tacita.layouts.arrays import Array
from tacita.layouts.rotations import rotate_sum, spread
from tacita.layouts.rows import FeatureLayout, carried_index
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.layouts.windows import HeadWindow
from tacita.packings.one_text.attention import AttentionSpecs
from tacita.packings.positional import Positional, crossed, turned
from tacita.packings.rows.attention import context_scale
from tacita.packings.rows.exponentials import Early
from tacita.packings.rows.gathered import Gathered, head_sums
from tacita.packings.rows.linear import Affine
from tacita.packings.rows.maps import context_layout
from tacita.packings.stored import Normed, Side, Stored, divide, divide_factor, normalised
from tacita.packings.vector.answer import asking
from tacita.packings.vector.linear import linear_of
from tacita.packings.weights import AttentionWeights, summed
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]
MIXING = 2  # levels from exponentials to context and sums, where iterations follow


@dataclass(frozen=True, eq=False)
class FirstTokenAttention:
    """Attention of query 0 over all keys. Build, then run the methods in order.

    carried: x holds token 0 in its second block, in every token, in place of copies. The query is then read
    from there, one level earlier than from a selected token. early: as of `rows.attention.Attention`.
    """

    windows: tuple[HeadWindow, ...]
    layout: FeatureLayout
    carried: bool
    vector: VectorLayout
    specs: AttentionSpecs
    positional: Positional
    normed: Normed | None
    query: CyclicMap
    key: Affine
    value: Affine
    projection: CyclicMap
    gathered: Gathered | None
    early: Early | None

    @staticmethod
    def build(
        weights: AttentionWeights,
        specs: AttentionSpecs,
        layout: FeatureLayout,
        windows: tuple[HeadWindow, ...],
        *,
        carried: bool = False,
    ) -> FirstTokenAttention:
        """Builds all plans. layout: of x, with copies. carried: see the class and `layout.can_carry`.
        specs.exit: see `exact_bound`."""
        heads = sum(len(w.heads) for w in windows)
        size = weights.query.shape[0] // heads
        context, vector = context_layout(windows, size), VectorLayout(layout.shape.slots, layout.size)
        f = float(np.sqrt(Stored.input_of(specs.exp).scale / np.sqrt(size)))
        early = Early.of(specs, MIXING, limited=weights.positional.kept_from(0))
        specs = early.specs(specs) if early else specs
        g, places = context_scale(specs), list(context.home)
        back = 1.0 / (divide_factor(specs.inverse) * g * specs.exit)
        out, bias = summed(weights.output, weights.output_bias, centred=specs.ending.centred)
        entry, rows = specs.entry, layout.with_copies(not carried)
        before = g * (early.context if early else 1.0)
        first = carried_index(layout) if carried else vector.index
        return FirstTokenAttention(
            windows=windows,
            layout=layout,
            carried=carried,
            vector=vector,
            specs=specs,
            positional=weights.positional,
            normed=weights.normed,
            query=asking(weights, (f * entry, f), heads, first, places),
            key=Affine.build(weights.key * (f * entry), specs.key_bias(weights.key_bias) * f, rows, context),
            value=Affine.build(weights.value * (before * entry), weights.value_bias * before, rows, context),
            projection=CyclicMap.build(out * back, bias / specs.exit, places, [vector.index]),
            gathered=None if early else Gathered.of(windows),
            early=early,
        )

    def select(self, be: Backend, x: Cts) -> Cts:
        """Takes the first token of x as a vector. One level."""
        if not self.carried:
            return (select_token(be, x, self.layout, self.vector),)
        block = self.layout.blocks[0]
        second = be.mul_vector(x[0], np.where(carried_index(self.layout) >= 0, 1.0, 0.0))
        return (rotate_sum(be, second, self.layout.shape.window // block, block),)

    def squares(self, be: Backend, x: Cts, first: Cts) -> tuple[Cts, Cts]:
        """Variances of the query, in every token, and of the keys, at the heads' positions. 3 levels below x
        and, unless x carries it, first."""
        assert self.normed is not None
        queries, keys, entry = self.normed.queries, self.normed.keys, self.specs.entry
        context = context_layout(self.windows, queries.size)
        source = carried_index(self.layout) if self.carried else self.vector.index
        (ours, shift), (theirs, moved) = queries.squared, keys.squared
        query_map = CyclicMap.build(ours * entry, shift, [source], list(context.home))
        key_map = Affine.build(theirs * entry, moved, self.layout.with_copies(not self.carried), context)
        of_first = query_map.apply(be, x if self.carried else first)
        return self._variances(be, queries, of_first), self._variances(be, keys, key_map.apply(be, x))

    def _variances(self, be: Backend, side: Side, projections: Cts) -> Cts:
        pairs = zip(self.windows, projections, strict=True)
        return tuple(head_sums(be, be.square(ct), self._heads(w), w.width, side.offset) for w, ct in pairs)

    def _normalised(self, be: Backend, queries: Cts, keys: Cts, roots: Sequence[Cts]) -> tuple[Cts, Cts]:
        """Queries, and with rotary positions their crossed features, and keys."""
        if self.normed is None:
            return queries, keys
        size, heads = self.normed.queries.size, self._heads_of_model
        context = context_layout(self.windows, size)
        factor = float(np.sqrt(Stored.input_of(self.specs.exp).scale / np.sqrt(size)))
        ours, theirs = self.normed.queries.beta * factor, self.normed.keys.beta * factor
        further = context.vectors(crossed(ours, heads)) if self.positional.rotary else []
        copies = len(queries) // len(roots[0])
        whole_queries = normalised(be, queries, roots[0] * copies, [*context.vectors(ours), *further])
        return tuple(whole_queries), tuple(normalised(be, keys, roots[1], context.vectors(theirs)))

    def scores(self, be: Backend, x: Cts, first: Cts, *roots: Cts) -> Cts:
        """Scores of query 0, stored for exp: token j holds key j, repeated over each head's positions. 3
        levels below x and, unless x carries it, first; one more with rotary positions below what asks,
        and one below both with roots of normalised queries and keys."""
        queries, keys = self.query.apply(be, x if self.carried else first), self.key.apply(be, x)
        queries, keys = self._normalised(be, queries, keys, roots)
        queries = self._turned(be, queries)
        pairs = zip(self.windows, queries, keys, strict=True)
        return tuple(self._window_scores(be, window, be.mul(q, k)) for window, q, k in pairs)

    def _turned(self, be: Backend, queries: Cts) -> Cts:
        """The one query turned back by each token's angles, so that keys stay as they are."""
        if self.positional.rotary is None:
            return queries
        window, tokens = self.layout.shape.window, np.arange(self.layout.shape.tokens)[:, None]
        home = context_layout(self.windows, self.layout.size // self._heads_of_model).home
        sides = [self.positional.rotary.back.of_features(row, tokens) for row in home]
        cos, sin = ([side[i].reshape(tokens.size * window) for side in sides] for i in (0, 1))
        half = len(queries) // 2
        return tuple(turned(be, queries[:half], queries[half:], cos, sin))

    @property
    def visible(self) -> list[Array] | None:
        """A mask for each window, 1 at the keys that query 0 sees, the same in all; None where it sees
        all."""
        if self.positional.visible is None or not self.positional.kept_from(0):
            return None
        return [np.repeat(self.positional.visible[0], self.layout.shape.window)] * len(self.windows)

    @property
    def _heads_of_model(self) -> int:
        return sum(len(w.heads) for w in self.windows)

    def _window_scores(self, be: Backend, window: HeadWindow, product: Ct) -> Ct:
        starts = np.where(
            self._heads(window) & (np.arange(window.shape.window) % window.width == 0), 1.0, 0.0
        )
        totals = be.mul_vector(rotate_sum(be, product, window.width), starts)
        scores = spread(be, totals, window.width)
        return be.add_vector(scores, self._offsets(window))

    def _offsets(self, window: HeadWindow) -> Array:
        """[window] or, with relative positions, [slots]: what is added to the scores, at the positions of
        real heads at full width."""
        each = self.specs.score_offsets(self._heads_of_model)[None, list(window.heads)]
        if self.positional.added is not None:
            each = each + self.positional.added[list(window.heads), 0].T * self.specs.score_scale
        rows = np.zeros((len(each), window.shape.window))
        rows[:, : window.width * each.shape[1]] = np.repeat(each, window.width, axis=1)
        return rows.reshape(-1)

    def mix(self, be: Backend, x: Cts, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(context / bound, row sums stored for the inverse), the same in every token, at the heads'
        positions, one ciphertext of context a window and one of all sums. One level below exps; or two
        and those of iterations before the bootstrap, with sums a window.

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
        if self.early:
            context, sums = self._early_sums(be, self.early, exps, value, mask, places)
        else:
            parts = be.mul(value, mask), be.mul_vector(mask, places * form.scale)
            context, sums = (self._totalled(be, exps, part) for part in parts)
        return context, be.add_vector(sums, places * form.offset)

    def _early_sums(
        self, be: Backend, early: Early, exps: Ct, value: Ct, mask: Ct, places: Array
    ) -> Sequence[Ct]:
        """Context and sums after the early iterations. A sum over tokens adds up their noise, so that they
        are `tokens` times as large until they are summed: an integer, which is free."""
        tokens = self.layout.shape.tokens
        large = be.mul_int(mask, tokens)
        context, sums = (self._totalled(be, exps, part) for part in (be.mul(value, large), large))
        factors = (context, 1.0), (sums, early.sums), (sums, early.scale)
        numerators = [be.mul_vector(ct, places * (factor / tokens)) for ct, factor in factors]
        return early.begin(be, numerators[:2], numerators[2])

    def _totalled(self, be: Backend, exps: Ct, part: Ct) -> Ct:
        """Sum over all tokens, in every token."""
        shape = self.layout.shape
        return rotate_sum(be, be.mul(exps, part), shape.tokens, shape.window)

    def attend(self, be: Backend, context: Cts, sums: Cts) -> Cts:
        """Divides the context by its sums at the heads' positions, zero elsewhere, in [-1, 1]. Levels: the
        inverse's, and one more below the sums of several windows."""
        if self.gathered:
            return tuple(self.gathered.divide(be, context, sums[0], self.specs.inverse))
        return tuple(divide(be, c, s, self.specs.inverse) for c, s in zip(context, sums, strict=True))

    def project(self, be: Backend, first: Cts, attended: Cts) -> Cts:
        """(Attention output + first) / exit, centred or not. One level below both. first: of the residual."""
        out = self.projection.apply(be, attended)
        return linear_of(self.vector).add(be, out, first, self.specs.back, self.specs.ending)

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
