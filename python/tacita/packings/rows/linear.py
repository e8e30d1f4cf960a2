"""Linear layers on rows, centring folded into weights, and the residual branch that has to be centred apart.

LayerNorm only sees its input minus its mean. Centring is linear, so the projection before a LayerNorm is
built from centred weights (no cost), and only the residual is centred by rotations, on a branch that is not
the deepest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.layouts.arrays import Array, Diagonal
from tacita.layouts.rotations import RealMap, rotate_sum, spread
from tacita.layouts.rows import FeatureLayout, linear_diagonals, restore_copies
from tacita.layouts.vector import AnswerBlocks
from tacita.packings.shared.answer import Answering, answer_features, answer_logits, block
from tacita.packings.shared.linear import Linear, TextNorm, affine
from tacita.slots.base import Backend, Ct
from tacita.slots.diagonals import Diagonals

Pair = tuple[Array, Array]  # weight and bias


@dataclass(frozen=True, eq=False)
class Affine:
    """A dense map y = x @ weight.T + bias between layouts; y at the first copy of dst, zero elsewhere. One
    level."""

    map: RealMap
    bias: tuple[Array, ...]

    @staticmethod
    def build(weight: Array, bias: Array, src: FeatureLayout, dst: FeatureLayout) -> Affine:
        """Builds the map. weight (dst.size, src.size), bias (dst.size,)."""
        diagonals = linear_diagonals(weight, src, dst)
        real_map = RealMap.build(diagonals, n_inputs=src.count, n_outputs=dst.count)
        return Affine(real_map, tuple(dst.vectors(bias)))

    @staticmethod
    def stacked(parts: Sequence[Pair], src: FeatureLayout, dst: FeatureLayout) -> Affine:
        """Builds several maps of one input, which share its rotations: the ciphertexts of each."""
        tables = [linear_diagonals(w, src, dst, n * dst.count) for n, (w, _) in enumerate(parts)]
        count = dst.count * len(parts)
        real_map = RealMap.build(Diagonals.joined(tables), n_inputs=src.count, n_outputs=count)
        return Affine(real_map, tuple(v for _, bias in parts for v in dst.vectors(bias)))

    def apply(self, be: Backend, x: Sequence[Ct]) -> tuple[Ct, ...]:
        """Ciphertexts of src -> ciphertexts of dst."""
        return tuple(be.add_vector(ct, b) for ct, b in zip(self.map.apply(be, x), self.bias, strict=True))


def linear_of(layout: FeatureLayout) -> Linear[FeatureLayout]:
    """How blocks compute on rows. layout: with copies, which a sum that is stored gets back."""
    return Linear(layout, Affine.build, Affine.stacked, residual, layout.with_copies(False), restore_copies)


def residual(
    be: Backend, x: Sequence[Ct], layout: FeatureLayout, factor: float, *, centred: bool = True
) -> tuple[Ct, ...]:
    """(x minus its mean over features, if centred) * factor at the first copy, zero elsewhere.

    x: with copies. One level as it is. Centred, one level when one ciphertext holds all features twice or
    more: its cyclic sums are right at the first copy. Else two: the sum over the window is right at position
    0 only and has to be cut out and spread.
    """
    ones = layout.vectors(np.full(layout.size, factor))
    scaled = [be.mul_vector(ct, v) for ct, v in zip(x, ones, strict=True)]
    if not centred:
        return tuple(scaled)
    if layout.count == 1 and layout.copies(0) > 1:
        total = rotate_sum(be, x[0], layout.blocks[0])
        return (be.sub(scaled[0], be.mul_vector(total, ones[0] / layout.size)),)
    means = _means(be, x, layout)
    parts = [be.mul_vector(means, v) for v in ones]
    return tuple(be.sub(a, b) for a, b in zip(scaled, parts, strict=True))


def _means(be: Backend, x: Sequence[Ct], layout: FeatureLayout) -> Ct:
    """The mean over features in every position that a first copy uses. One level, 2 log2(window)
    rotations."""
    most = max(layout.copies(i) for i in range(layout.count))
    total = x[0] if layout.copies(0) == most else be.mul_int(x[0], most // layout.copies(0))
    for i in range(1, layout.count):
        share = most // layout.copies(i)
        total = be.add(total, x[i] if share == 1 else be.mul_int(x[i], share))
    total = rotate_sum(be, total, layout.shape.window)
    first = np.zeros(layout.shape.window)
    first[0] = 1.0 / (most * layout.size)
    return spread(be, be.mul_vector(total, first), max(layout.blocks))


# LayerNorm on rows (`shared.linear`): sums over a window's positions, and a result with copies.

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Norm(TextNorm[FeatureLayout]):
    """A norm in rows. layout: of the result, with copies; the input uses its first copies only.

    packed_first: put token 0 in place of the copies, in every token (for `FirstTokenAttention`; see
    `can_carry`).
    """

    packed_first: bool = False

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, at least at every first copy. 2
        levels."""
        total = be.dot(x, x) if len(x) > 1 else be.square(x[0])
        block, window = max(self.layout.blocks), self.layout.shape.window
        first = np.arange(window) < block
        if 2 * block <= window:
            total = rotate_sum(be, be.add(total, be.rotate(total, -block)), block)
            # beyond the first copy the sums mix two tokens: cut them off, they could leave the interval
            return be.add_vector(
                be.mul_vector(total, np.where(first, self.scale, 0.0)), np.where(first, self.offset, 0.0)
            )
        start = np.where(np.arange(window) == 0, self.scale, 0.0)
        total = be.mul_vector(rotate_sum(be, total, window), start)
        return be.add_const(spread(be, total, window), self.offset)

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """Normalises as `TextNorm` does, and restores the copies (or puts token 0 in their place)."""
        scaled = super().normalise(be, x, root)
        if not self.packed_first:
            return restore_copies(be, scaled, self.layout)
        shape, block = self.layout.shape, self.layout.blocks[0]
        gamma, beta = (_at_first(side[0], shape.tokens) for side in self.vectors)
        first = affine(be, x[0], root, gamma, beta)
        everywhere = spread(be, be.rotate(first, -block), shape.tokens, shape.window)
        return (be.add(scaled[0], everywhere),)


def _at_first(v: Array, tokens: int) -> Array:
    """A window's vector at token 0, zero at the others (period: all slots)."""
    return np.concatenate([v, np.zeros((tokens - 1) * v.size)])


# From the hidden states of rows to the ciphertexts of the answer, laid out in blocks (`layouts.vector`): the
# mean over tokens, and what is made of it.


def mean(be: Backend, x: Cts, weights: Ct, layout: FeatureLayout) -> Cts:
    """Weighted sum over tokens, in every token. weights: encrypted mask / length, the same at all positions.
    One level, log2(tokens) rotations a ciphertext."""
    shape = layout.shape
    return tuple(rotate_sum(be, be.mul(ct, weights), shape.tokens, shape.window) for ct in x)


def row_logits(weight: Array, bias: Array, layout: FeatureLayout, entry: float, bound: float) -> Answering:
    """Makes the logits of row 0. weight (classes, hidden). entry: bound of the pooled vector at token 0;
    bound: of the logits. Two levels.

    Token t holds the products of row t, then row t again; a sum over positions leaves logit t at position 0.
    Raises ShapeError for more classes than tokens hold twice.
    """
    shape = layout.shape
    diagonals: Diagonal = {}
    for i in range(layout.count):
        for t, row in enumerate(np.vstack([weight, weight]) * (entry / bound)):
            at = np.where(layout.home[i] >= 0, row[layout.home[i]], 0.0)
            diagonals[0, i, -t * shape.window] = block(at, t, shape.slots)
    blocks = AnswerBlocks(shape.slots, shape.window, len(bias), True, bound)
    return answer_logits(blocks, diagonals, layout.count, bias)


def row_features(layout: FeatureLayout, entry: float) -> Answering:
    """The pooled vector itself, at tokens 0 and 1; the check at token 2. entry: its bound. One level."""
    shape = layout.shape
    diagonals: Diagonal = {}
    for i in range(layout.count):
        inside = np.where(layout.home[i] >= 0, 1.0, 0.0)
        diagonals[i, i, 0] = block(inside, 0, shape.slots)
        diagonals[i, i, -shape.window] = block(inside, 1, shape.slots)
    return answer_features(AnswerBlocks(shape.slots, shape.window, layout.size, False, entry), diagonals)
