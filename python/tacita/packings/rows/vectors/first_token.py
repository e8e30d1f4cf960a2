"""The last layer when only its first token is read: attention of one query, then a matrix-vector pipeline.

A single query needs one product with K instead of R, no packing of scores and no unpacking of exponentials:
the score of key j stays at token j, repeated over the positions of its head, and the mix is one product with
V and a sum over tokens. What follows works on one vector in vector packing, one ciphertext per tensor
whatever the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.rows.attention import AttentionSpecs, context_scale
from tacita.packings.rows.heads import context_layout
from tacita.packings.rows.layout import Array, FeatureLayout, carried_index, rotate_sum, spread
from tacita.packings.rows.linear import Affine
from tacita.packings.rows.vectors.vector import CyclicMap, VectorLayout, select_token
from tacita.packings.rows.windows import HeadWindow
from tacita.packings.stored import Stored, apply, divide, divide_factor, output_bound
from tacita.packings.weights import AttentionWeights
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

    @staticmethod
    def build(
        weights: AttentionWeights,
        layout: FeatureLayout,
        windows: tuple[HeadWindow, ...],
        specs: AttentionSpecs,
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
        out, out_bias = weights.output, weights.output_bias
        mean = (out.mean(axis=0), out_bias.mean()) if specs.centred else (0.0, 0.0)
        projected, shift = (out - mean[0]) * back, (out_bias - mean[1]) / specs.exit
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
            projection=CyclicMap.build(projected, shift, places, [vector.index]),
        )

    def select(self, be: Backend, x: Cts) -> Ct:
        """x -> its first token in vector packing. One level."""
        if not self.carried:
            return select_token(be, x, self.layout, self.vector)
        block = self.layout.blocks[0]
        second = be.mul_vector(x[0], np.where(carried_index(self.layout) >= 0, 1.0, 0.0))
        return rotate_sum(be, second, self.layout.shape.window // block, block)

    def scores(self, be: Backend, x: Cts, first: Ct) -> Cts:
        """Scores of query 0, stored for exp: token j holds key j, repeated over each head's positions. 3
        levels below x and, unless x carries it, first."""
        queries, keys = self.query.apply(be, x if self.carried else [first]), self.key.apply(be, x)
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

    def exponentials(self, be: Backend, scores: Cts) -> Cts:
        """exp(score - shift) in (0, 1]. Levels: the spec's."""
        return tuple(apply(be, s, self.specs.exp) for s in scores)

    def mix(self, be: Backend, x: Cts, exps: Cts, mask: Ct) -> tuple[Cts, Cts]:
        """(context / bound, row sums stored for the inverse), the same in every token, at the heads'
        positions of a ciphertext each, one of both per window. One level below exps.

        mask: keep[j] at all positions of token j. x is needed two levels above the exponentials' at most.
        """
        level = min(be.level(e) for e in exps)
        values = self.value.apply(be, [be.drop_to(ct, min(be.level(ct), level + 2)) for ct in x])
        pairs = [self._mix_window(be, *each, mask) for each in zip(self.windows, exps, values, strict=True)]
        return tuple(context for context, _ in pairs), tuple(sums for _, sums in pairs)

    def _mix_window(self, be: Backend, window: HeadWindow, exps: Ct, value: Ct, mask: Ct) -> tuple[Ct, Ct]:
        form, places = Stored.input_of(self.specs.inverse), np.where(self._heads(window), 1.0, 0.0)
        mask = be.drop_to(mask, min(be.level(mask), be.level(value)))
        parts = [be.mul(value, mask), be.mul_vector(mask, places * form.scale)]
        shape = window.shape
        context, sums = (rotate_sum(be, be.mul(exps, p), shape.tokens, shape.window) for p in parts)
        return context, be.add_vector(sums, places * form.offset)

    def attend(self, be: Backend, context: Cts, sums: Cts) -> Cts:
        """context / sums at the heads' positions, zero elsewhere, in [-1, 1]. Levels: the inverse's."""
        return tuple(divide(be, c, s, self.specs.inverse) for c, s in zip(context, sums, strict=True))

    def project(self, be: Backend, first: Ct, attended: Cts) -> Ct:
        """(Attention output + first) / exit, centred or not. One level below both. first: of the residual."""
        (out,) = self.projection.apply(be, attended)
        return be.add(out, summand(be, first, self.vector, self.specs.back, centred=self.specs.centred))

    def _heads(self, window: HeadWindow) -> Array:
        """bool [window]: positions of real heads at full width."""
        inside: Array = np.arange(window.shape.window) < window.width * len(window.heads)
        return inside


def without_mean(be: Backend, x: Ct, layout: VectorLayout, factor: float) -> Ct:
    """(x minus its mean over features) * factor, zero in the padding. One level, log2(period) rotations."""
    ones = layout.vector(np.full(layout.size, factor))
    total = rotate_sum(be, x, layout.period)
    return be.sub(be.mul_vector(x, ones), be.mul_vector(total, ones / layout.size))


def summand(be: Backend, x: Ct, layout: VectorLayout, factor: float, *, centred: bool) -> Ct:
    """x * factor, less its mean over features if centred; zero in the padding. One level."""
    if not centred:
        return be.mul_vector(x, layout.vector(np.full(layout.size, factor)))
    return without_mean(be, x, layout, factor)


def exact_bound(bound: float, rsqrt: Spec, size: int) -> float:
    """The least bound >= `bound` for which the variance of a tensor stored by it takes no level to scale: the
    sum of its squares times an integer is then the variance in the stored form of rsqrt."""
    scale = Stored.input_of(rsqrt).scale / size
    return float(np.sqrt(ceil(bound**2 * scale) / scale))


@dataclass(frozen=True, eq=False)
class VectorNorm:
    """LayerNorm in vector packing. entry: from `exact_bound`; else as `Norm`."""

    layout: VectorLayout
    rsqrt: Spec
    epsilon: float
    gamma: Array
    beta: Array
    entry: float
    exit: float

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, in every slot. One level."""
        form = Stored.input_of(self.rsqrt)
        total = rotate_sum(be, be.square(x[0]), self.layout.period)
        times = round(self.entry**2 * form.scale / self.layout.size)
        return be.add_const(be.mul_int(total, times), (self.epsilon - form.centre) * form.scale)

    def root(self, be: Backend, variance: Ct) -> Ct:
        """As `Norm.root`."""
        return apply(be, variance, self.rsqrt, 1.0 / output_bound(self.rsqrt))

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """(x * root * gamma + beta) / exit. 2 levels below x, 1 below root."""
        scale = self.entry * output_bound(self.rsqrt) / self.exit
        scaled = be.mul(be.mul_vector(x[0], self.layout.vector(self.gamma * scale)), root)
        return (be.add_vector(scaled, self.layout.vector(self.beta / self.exit)),)


@dataclass(frozen=True, eq=False)
class VectorForward:
    """Feed-forward block in vector packing; fields as `FeedForward`."""

    layout: VectorLayout
    activation: Spec
    back: float
    centred: bool
    expansion: CyclicMap
    contraction: CyclicMap

    @staticmethod
    def build(
        weights: Sequence[Array],
        layout: VectorLayout,
        activation: Spec,
        entry: float,
        exit: float,
        *,
        residual: float | None = None,
        centred: bool = True,
    ) -> VectorForward:
        """As `FeedForward.build`."""
        up, up_bias, down, down_bias = weights
        inner = VectorLayout(layout.slots, up.shape[0])
        form, scale = Stored.input_of(activation), output_bound(activation) / exit
        mean = (down.mean(axis=0), down_bias.mean()) if centred else (0.0, 0.0)
        narrow, shift = (down - mean[0]) * scale, (down_bias - mean[1]) / exit
        wide, moved = up * (entry * form.scale), up_bias * form.scale + form.offset
        return VectorForward(
            layout=layout,
            activation=activation,
            back=(entry if residual is None else residual) / exit,
            centred=centred,
            expansion=CyclicMap.build(wide, moved, [layout.index], [inner.index]),
            contraction=CyclicMap.build(narrow, shift, [inner.index], [layout.index]),
        )

    def expand(self, be: Backend, y: Cts) -> Cts:
        """As `FeedForward.expand`."""
        return tuple(self.expansion.apply(be, list(y)))

    def activate(self, be: Backend, inner: Cts) -> Cts:
        """As `FeedForward.activate`."""
        return (apply(be, inner[0], self.activation, 1.0 / output_bound(self.activation)),)

    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts:
        """As `FeedForward.contract`; one level below active and y."""
        (out,) = self.contraction.apply(be, list(active))
        return (be.add(out, summand(be, y[0], self.layout, self.back, centred=self.centred)),)
