"""Multi-head attention on diagonals: scores, exponentials, mixing, normalisation, output projection.

x -> Q^T, K^T -> S^T = K Q^T -> exp -> C^T = V^T exp(S)^T -> C / row sums -> projection plus residual (THOR,
section 6.2.2). The columns of all matrices are query tokens, so a row of softmax is summed over diagonals,
which are places and ciphertexts. Softmax is normalised after the product with V. The padding mask is
encrypted: by key token it multiplies V, and in the layout of the scores the exponentials that are summed.
Where softmax has two phases, squares that are already masked stand in place of exponentials (`row_sums`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce

import numpy as np

from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.layouts.multidiagonal import Features, MultiDiagonal
from tacita.layouts.rotations import rotate_sum
from tacita.packings.base import Operation
from tacita.packings.encoding import Argument, apply, output_bound
from tacita.packings.multidiagonal.linear import Affine, linear_of, totals
from tacita.packings.multidiagonal.products import Product, transpose
from tacita.packings.specs import AttentionSpecs
from tacita.packings.weights import AttentionPlan, RotaryAngles, Side, crossed, normalised, turned
from tacita.slots.base import Backend, Ct

# Row sums of exponentials, and what a softmax in two phases does with those of its first
# (`approx.softmax`).
#
# One phase: exponentials times the encrypted mask are summed, and the attention divides by the sums. Two
# phases: half the scores' exponentials are summed so, divided and squared; the squares are zero where the
# mask is, so they are summed as they are, and the attention goes on with them in place of exponentials.

Cts = tuple[Ct, ...]
Total = Callable[[Backend, Ct], Ct]  # adds up what lies in the rows of one ciphertext; no level
ENCODED = 2.0**12  # of a plaintext's values at most: at a scale of 2^48 the engine's integers end at 2^13.8


def real_heads(layout: Features, value: float | Array) -> Array:
    """value, or that of each head, at the places of heads, zero at the others; a short period."""
    vector = np.zeros(layout.shape.batch)
    vector[: layout.heads] = value
    return vector


def dots(be: Backend, xs: Sequence[Ct], ys: Sequence[Ct]) -> Ct:
    """Sum of products. One level."""
    return be.dot(xs, ys) if len(xs) > 1 else be.mul(xs[0], ys[0])


def row_sums(specs: AttentionSpecs, layout: Features, total: Total, *, first_phase: bool = False) -> RowSums:
    """The sums that the attention divides by at last, or those of a first phase. total: as of `RowSums`."""
    if not first_phase or (phases := specs.phases) is None:
        return RowSums(layout, specs.inverse, total)
    return RowSums(layout, phases.first, total, phases.steepest, phases.room)


@dataclass(frozen=True, eq=False)
class RowSums:
    """How exponentials are added up over the keys of a row. inverse: of the sums. steepest: what an inverse
    is stored over, None for its largest value on its domain. room: what squares are stored over."""

    layout: Features
    inverse: Spec
    total: Total
    steepest: float | None = None
    room: float = 1.0

    def masked(self, be: Backend, exps: Cts, masks: Sequence[Ct]) -> Ct:
        """Sums of masks times exps, stored for the inverse. One level."""
        scaled = [be.mul_vector(m, self._heads(self._form.scale)) for m in masks]
        return self._centred(be, self.total(be, dots(be, exps, scaled)))

    def plain(self, be: Backend, squares: Cts) -> Ct:
        """Sums stored for the inverse. One level."""
        sums = self.total(be, reduce(be.add, squares))
        return self._centred(be, be.mul_vector(sums, self._heads(self._form.scale)))

    def invert(self, be: Backend, sums: Cts) -> Cts:
        """1 / sums / its largest value. Levels: the inverse's."""
        return (apply(be, sums[0], self.inverse, 1.0 / self._largest),)

    def squares(self, be: Backend, exps: Cts, masks: Sequence[Ct], inverse: Ct) -> Cts:
        """(exp * mask / sum / room)^2, in [0, 1]. 3 levels below exps and masks, 2 below the inverse."""
        scaled = [self._times(be, m, self._largest / self.room) for m in masks]
        weighed = [be.mul(e, m) for e, m in zip(exps, scaled, strict=True)]
        return tuple(be.square(be.mul(k, inverse)) for k in weighed)

    def _times(self, be: Backend, mask: Ct, factor: float) -> Ct:
        """Multiplies a mask by a factor. One level. What of a small sum's inverse is too large to be encoded
        is a power of two, which the ciphertext is multiplied by exactly."""
        doublings = max(0, math.ceil(math.log2(factor / ENCODED)))
        product = be.mul_vector(mask, self._heads(math.ldexp(factor, -doublings)))
        return be.mul_int(product, 1 << doublings) if doublings else product

    @property
    def _largest(self) -> float:
        return output_bound(self.inverse) if self.steepest is None else self.steepest

    @property
    def _form(self) -> Argument:
        return Argument.of(self.inverse)

    def _heads(self, value: float) -> Array:
        return real_heads(self.layout, value)

    def _centred(self, be: Backend, total: Ct) -> Ct:
        return be.add_vector(total, self._heads(self._form.offset))


@dataclass(frozen=True)
class Phase:
    """Operations between exponentials and what is mixed in their place; none, and the exponentials, for one
    phase."""

    operations: Sequence[Operation]
    result: str


def first_phase(
    name: str, specs: AttentionSpecs, sums: Callable[..., RowSums], mask: str, masks: slice
) -> Phase:
    """The first phase of a softmax in two phases. name: of the attention. sums: (first_phase) -> as of
    `row_sums`. mask: the request's tensor, and those of its ciphertexts in the layout of the scores."""
    parts = ("exponentials", "halves", "half_inverse", "squares")
    exps, halves, inverse, squares = (f"{name}.{part}" for part in parts)
    if specs.phases is None:
        return Phase((), exps)
    first = sums(first_phase=True)

    def add_up(be: Backend, exps: Cts, all_masks: Cts) -> Cts:
        return (first.masked(be, exps, all_masks[masks]),)

    def square(be: Backend, exps: Cts, inverse: Cts, all_masks: Cts) -> Cts:
        return first.squares(be, exps, all_masks[masks], inverse[0])

    operations = (
        Operation.of(halves, (exps, mask), halves, add_up),
        Operation.of(inverse, (halves,), inverse, first.invert),
        Operation.of(squares, (exps, inverse, mask), squares, square),
    )
    return Phase(operations, squares)


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
    rotary = plan.positional.rotary is not None
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


class Attention:
    """All maps of one attention of every token. Build, then run the methods in order."""

    def __init__(self, plan: AttentionPlan, layout: Features) -> None:
        """Builds all maps. layout: of x."""
        context, betas = plan.specs.context, plan.betas() if plan.normed else ()
        projection = plan.projection(context * output_bound(plan.specs.inverse))
        self.plan, self.layout, self.query_key = plan, layout, query_key(plan, layout)
        self.value = Affine(*plan.value(1.0 / context), layout, layout)
        self.projection = Affine(*projection, layout, layout)
        self.betas = [v for side in _crossed(plan, betas) for v in layout.vectors(side)]
        self.add = linear_of(layout).adder(plan.output)

    @cached_property
    def _scores(self) -> MultiDiagonal:
        return scores_layout(self.layout)

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
        products = Product(self._scores, shape).apply(be, keys, both[: shape.count])
        return tuple(be.add_vector(ct, v) for ct, v in zip(products, self._added(len(products)), strict=True))

    def _turned(self, be: Backend, cts: Sequence[Ct]) -> Sequence[Ct]:
        if self.plan.positional.rotary is None:
            return cts
        (cos, sin), half = rotary_of(self.plan.positional.rotary, self.layout), len(cts) // 2
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
