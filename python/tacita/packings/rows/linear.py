"""Linear layers on rows, centring folded into weights, and the residual branch that has to be centred apart.

LayerNorm only sees its input minus its mean. Centring is linear, so the projection before a LayerNorm is
built from centred weights (no cost), and only the residual is centred by rotations, on a branch that is not
the deepest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacita.layouts.arrays import Array, Diagonal, ceil_power
from tacita.layouts.rotations import (
    RealMap,
    doubled_parts,
    joined,
    range_radix,
    rotate_parts,
    rotate_sum,
    spread,
)
from tacita.layouts.rows import FeatureLayout, linear_diagonals, restore_copies
from tacita.layouts.windows import HeadWindow
from tacita.packings.encoding import WeightBias
from tacita.packings.shared.linear import LIFT, Linear, TextNorm, affine, lifted_squares
from tacita.packings.weights import Side
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.diagonals import Diagonals
from tacita.slots.linear import LinearPlan

Pair = tuple[Array, Array]  # weight and bias


@dataclass(frozen=True, eq=False)
class Affine:
    """A dense map y = x @ weight.T + bias between layouts; y at the first copy of dst, zero elsewhere; real,
    or complex of folded heads. One level."""

    map: RealMap
    bias: tuple[Array, ...]

    @staticmethod
    def build(weight: Array, bias: Array, src: FeatureLayout, dst: FeatureLayout) -> Affine:
        """Builds the map. weight (dst.size, src.size), bias (dst.size,)."""
        return Affine.stacked([(weight, bias)], src, dst)

    @staticmethod
    def stacked(parts: Sequence[Pair], src: FeatureLayout, dst: FeatureLayout) -> Affine:
        """Builds several maps of one input, which share its rotations: the ciphertexts of each."""
        tables = [linear_diagonals(w, src, dst, n * dst.count) for n, (w, _) in enumerate(parts)]
        count = dst.count * len(parts)
        real_map = RealMap.build(Diagonals.joined(tables), n_inputs=src.count, n_outputs=count)
        return Affine(real_map, tuple(v for _, bias in parts for v in dst.vectors(bias)))

    def apply(self, be: Backend, x: Sequence[Ct]) -> Cts:
        """Ciphertexts of src -> ciphertexts of dst."""
        return tuple(be.add_vector(ct, b) for ct, b in zip(self.map.apply(be, x), self.bias, strict=True))


def linear_of(layout: FeatureLayout) -> Linear[FeatureLayout]:
    """How blocks compute on rows. layout: with copies, which a sum that is stored gets back."""
    return Linear(
        layout, Affine.build, Affine.stacked, residual, Norm, layout.with_copies(False), restore_copies
    )


def residual(
    be: Backend, x: Sequence[Ct], layout: FeatureLayout, factor: float, *, centred: bool = True
) -> Cts:
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
    """The mean over features where a first copy uses it. One level, 2 log2(window) rotations."""
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


@dataclass(frozen=True, eq=False)
class Norm(TextNorm[FeatureLayout]):
    """A norm in rows. layout: of the result, with copies; the input uses its first copies only.

    packed_first: put token 0 in place of the copies, in every token (for `FirstTokenAttention`; see
    `can_carry`).
    """

    packed_first: bool = False

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, at every first copy. 2 levels."""
        total, scale = lifted_squares(be, x), self.scale / LIFT**2
        block, window = max(self.layout.blocks), self.layout.shape.window
        first = np.arange(window) < block
        if 2 * block <= window:
            total = rotate_sum(be, be.add(total, be.rotate(total, -block)), block)
            # beyond the first copy the sums mix two tokens: cut them off, they could leave the interval
            return be.add_vector(
                be.mul_vector(total, np.where(first, scale, 0.0)), np.where(first, self.offset, 0.0)
            )
        start = np.where(np.arange(window) == 0, scale, 0.0)
        total = be.mul_vector(rotate_sum(be, total, window), start)
        return be.add_const(spread(be, total, window), self.offset)

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """Normalises as `TextNorm` does, and restores the copies (or puts token 0 in their place)."""
        scaled = super().normalise(be, x, root)
        if not self.packed_first:
            return restore_copies(be, scaled, self.layout)
        shape, block = self.layout.shape, self.layout.blocks[0]
        gamma, beta = (np.pad(side[0], (0, shape.slots - shape.window)) for side in self.vectors)
        first = affine(be, x[0], root, gamma, beta)
        everywhere = spread(be, be.rotate(first, -block), shape.tokens, shape.window)
        return (be.add(scaled[0], everywhere),)


# Attention on rows: how heads, shifts and scores share a window, and the slot-linear maps between these
# layouts.
#
# Q, K and V of a head are folded to half their width: complex entry e of a head is Q[e] + i Q[e + half]. A
# window holds `copies` copies of its heads; copy c of K is shifted by c*R tokens, so one product serves
# `copies` shifts r + c*R of keys against queries and R = tokens/copies products serve all. Scores of shift r
# land at position r of their group (mod half), hence one real ciphertext holds `half` products' worth of
# scores, and exactly tokens^2 * heads / slots ciphertexts hold all when heads fill windows.
#
# Then the parts take turns. Both parts of Q, each real, are multiplied by those of K, each of which has the
# keys R/2 shifts further on as its imaginary part, so that a sum of two products has two shifts (THOR's
# complexification). Packing them, and unpacking exponentials of two shifts at once, costs half.


KEPT = 32  # plans of windows: the same in all layers


def folded_layout(windows: tuple[HeadWindow, ...]) -> FeatureLayout:
    """Complex features head*half + e of Q, K, V, one ciphertext per window, first copy only."""
    half = windows[0].half
    rows = [np.concatenate([np.arange(h * half, (h + 1) * half) for h in w.heads]) for w in windows]
    return FeatureLayout.of(windows[0].shape, rows, copied=False)


def context_layout(windows: tuple[HeadWindow, ...], head_size: int) -> FeatureLayout:
    """Real features head*head_size + e of the context, padded heads with gaps, first copy only."""
    width = windows[0].width
    e = np.arange(width)
    rows = [
        np.concatenate([np.where(e < head_size, h * head_size + e, -1) for h in w.heads]) for w in windows
    ]
    return FeatureLayout.of(windows[0].shape, rows, copied=False)


def fold_heads(per_feature: Array, heads: int, width: int, *, halves: bool = False) -> Array:
    """(heads*head_size, ...) -> complex (heads*width/2, ...): entry e of a head plus i times entry e +
    width/2; or plus i times entry e + head_size/2, with halves: those that turn together."""
    size = per_feature.shape[0] // heads
    padded = np.zeros((heads, width, *per_feature.shape[1:]))
    by_head = per_feature.reshape(heads, size, *per_feature.shape[1:])
    if halves:
        padded[:, : size // 2], padded[:, width // 2 : (width + size) // 2] = np.split(by_head, 2, axis=1)
    else:
        padded[:, :size] = by_head
    low, high = padded[:, : width // 2], padded[:, width // 2 :]
    folded: Array = low + 1j * high
    return folded.reshape(-1, *per_feature.shape[1:])


def repeat_copies(be: Backend, ct: Ct, window: HeadWindow, tokens: int = 0) -> Ct:
    """First copy only -> copy c holds token i + c*tokens. log2(copies) rotations, no level."""
    step = tokens * window.shape.window - window.block
    doublings = window.copies.bit_length() - 1
    for bit in range(doublings):
        ct = be.add(ct, be.rotate(ct, step << bit))
    return ct


def turn_parts(be: Backend, ct: Ct, window: HeadWindow, sign: int = 1) -> Iterator[tuple[list[Ct], ...]]:
    """Twice both parts of a ciphertext with repeated copies, turned by r shifts, and sign * i times the same
    turned by `pairs` more. Yields few r at a time, as all are as many as the exponentials. No level."""
    step, parts = window.shape.window, doubled_parts(be, ct)
    if window.shifts > 1:
        parts = tuple(joined(be, [x, be.rotate(x, step * window.pairs)], sign)[0] for x in parts)
    return zip(*(rotate_parts(be, x, step, window.pairs) for x in parts), strict=True)


@lru_cache(maxsize=KEPT)
def pack_plan(window: HeadWindow) -> LinearPlan:
    """Products of two shifts each, of doubled parts, -> complex scores: sums each group of product r into
    position r mod half. One level.

    Terms pairs*half, rotations at most 2*half - 2 an output by Horner's rule with one key.
    """
    diagonals: Diagonal = {}
    for r in range(window.pairs):
        j, t = divmod(r, window.half)
        for e in range(window.half):
            diagonals[j, r, e - t] = window.hot(t) / 4
    outputs = -(-window.pairs // window.half)
    return LinearPlan.from_diagonals(diagonals, n_inputs=window.pairs, n_outputs=outputs)


def score_parts(be: Backend, packed: Sequence[Ct], window: HeadWindow) -> list[Ct]:
    """What `pack_plan` makes -> twice the real scores, in order. A conjugation each, no level."""
    firsts, seconds = zip(*(doubled_parts(be, ct) for ct in packed), strict=True)
    if window.score_cts > 1 or window.shifts == 1:
        return [*firsts, *seconds][: window.score_cts]
    return [be.add(firsts[0], be.rotate(seconds[0], -window.pairs))]


def pair_scores(be: Backend, scores: Sequence[Ct], window: HeadWindow) -> list[Ct]:
    """Real scores -> complex ones, as `pack_plan` makes them. No level."""
    if len(scores) == 1:
        return joined(be, [scores[0], be.rotate(scores[0], window.pairs)][: window.shifts])
    half = len(scores) // 2
    return [z for two in zip(scores[:half], scores[half:], strict=True) for z in joined(be, two)]


def unpack_step(window: HeadWindow) -> int:
    """Distance of the anchors of `unpack`: about the square root of the 2*half rotations it covers."""
    return min(window.half, ceil_power(max(1, int(np.sqrt(2 * window.half)))))


def unpack_anchors(be: Backend, ct: Ct, window: HeadWindow) -> list[Ct]:
    """rotate(ct, a*step) for every anchor a, chained with the two keys +-step: from -half to the last
    position of a score."""
    step = unpack_step(window)
    up: list[Ct] = [ct]
    down: list[Ct] = []
    for _ in range(min(window.half, window.pairs) // step - 1):
        up.append(be.rotate(up[-1], step))
    for _ in range(window.half // step):
        down.append(be.rotate((down or [ct])[-1], -step))
    return down[::-1] + up


@lru_cache(maxsize=KEPT)
def unpack_plan(window: HeadWindow) -> LinearPlan:
    """Anchors of all complex ciphertexts -> `pairs` ciphertexts that hold score r, and that of `pairs` shifts
    further on, in every position of its group; one level."""
    step = unpack_step(window)
    before = window.half // step
    anchors = before + max(1, min(window.half, window.pairs) // step)
    diagonals: Diagonal = {}
    for r in range(window.pairs):
        j, t = divmod(r, window.half)
        for e in range(window.half):
            a, b = divmod(t - e, step)
            diagonals[r, j * anchors + a + before, b] = window.hot(e)
    inputs = anchors * -(-window.pairs // window.half)
    return LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=window.pairs, split="baby")


@lru_cache(maxsize=KEPT)
def mask_plan(window: HeadWindow, factor: float = 1.0) -> LinearPlan:
    """The window's mask -> the mask of each ciphertext of its scores, times a factor; one level."""
    step, half = window.shape.window, window.half
    diagonals = {(r // half, 0, r * step): factor * window.hot(r % half) for r in range(window.shifts)}
    split = step * range_radix(window.pairs)
    return LinearPlan.from_diagonals(diagonals, n_inputs=1, n_outputs=window.score_cts, split=split)


def fold_copies(be: Backend, ct: Ct, window: HeadWindow) -> Ct:
    """Sum over the copies, right at the first copy. log2(copies) rotations, no level."""
    return rotate_sum(be, ct, window.copies, window.block)


def unfold_plan(
    window: HeadWindow, context: float, sums: float, places: Array | None = None, twice: float = 0.0
) -> LinearPlan:
    """(real part, imaginary part, row sums) of the first folded copy -> context at full width, and row sums.

    One output [context | sums] when they share a ciphertext (then the sums come in rotated to sum_offset),
    else two.
    context, sums: factors. places: bool [window], where row sums are kept (default: wherever they come to
    be). twice: factor of the row sums in one more output, which has them at the places of all others; where
    they share one, it takes the sums once more, not rotated. One level; rotations: heads + 1 steps of `half`
    an output.
    """
    diagonals: Diagonal = {}
    p = np.arange(window.shape.window)
    offset = window.sum_offset if window.shared else 0
    for h in range(len(window.heads)):
        for part in (0, 1):
            base = h * window.width + part * window.half
            k = -(h + part) * window.half
            at = np.where((p >= base) & (p < base + window.half), 1.0, 0.0)
            _accumulate(diagonals, (0, part, k), context * at)
            sums_at = np.roll(at, offset) if places is None else at * places
            if sums_at.any():
                _accumulate(diagonals, (0 if window.shared else 1, 2, k), sums * sums_at)
            if twice and window.shared:
                _accumulate(diagonals, (1, 2, k), twice * np.roll(at, offset))
                _accumulate(diagonals, (1, 3, k), twice * at)
            elif twice:
                _accumulate(diagonals, (2, 2, k), twice * at)
    inputs, outputs = (4 if twice and window.shared else 3), (1 if window.shared else 2) + bool(twice)
    return LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=outputs, split="giant")


def _accumulate(diagonals: Diagonal, key: tuple[int, int, int], v: Array) -> None:
    diagonals[key] = diagonals[key] + v if key in diagonals else v


# Queries and keys of folded heads, and their norms head by head.


def folded_maps(
    sides: Sequence[WeightBias], layout: FeatureLayout, windows: tuple[HeadWindow, ...], *, halves: bool
) -> Affine:
    """One map to folded Q and K, or V, which share the rotations of x. sides: maps of stored x. halves: as of
    `fold_heads`."""
    folded, parts = folded_layout(windows), list[Diagonals]()
    for n, (weight, _) in enumerate(sides):
        matrix = _folded(weight, windows, halves)
        parts.append(linear_diagonals(matrix, layout, folded, n * len(windows)))
    diagonals = Diagonals.joined(parts)
    outputs = len(sides) * len(windows)
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=layout.count, n_outputs=outputs)
    return Affine(RealMap(plan), folded_vectors([bias for _, bias in sides], windows, halves=halves))


def folded_vectors(
    sides: Sequence[Array], windows: tuple[HeadWindow, ...], *, halves: bool
) -> tuple[Array, ...]:
    """What is added to folded queries and keys, by feature of all heads."""
    folded = folded_layout(windows)
    return tuple(v for side in sides for v in folded.vectors(_folded(side, windows, halves)))


def _folded(side: Array, windows: tuple[HeadWindow, ...], halves: bool) -> Array:
    heads = sum(len(w.heads) for w in windows)
    return fold_heads(side, heads, windows[0].width, halves=halves)


def folded_variances(be: Backend, side: Side, squares: Sequence[Ct], windows: tuple[HeadWindow, ...]) -> Cts:
    """Variances of folded queries or keys in every position of a folded head, stored for their rsqrt: a
    ciphertext a window. squares: results of the side's `squared` map. 2 levels."""
    products = (be.mul(ct, be.conjugate(ct)) for ct in squares)  # squares of both parts
    inside = (np.arange(w.shape.window) < w.half * len(w.heads) for w in windows)
    each = zip(windows, products, inside, strict=True)
    return tuple(head_sums(be, ct, at, w.half, side.offset) for w, ct, at in each)


def head_sums(be: Backend, ct: Ct, inside: Array, width: int, offset: float, factor: float = 1.0) -> Ct:
    """Sums over each head's `width` positions, in all of them, times a factor, plus an offset; zero outside.
    One level."""
    starts = np.where(inside & (np.arange(inside.size) % width == 0), factor, 0.0)
    totals = be.mul_vector(rotate_sum(be, ct, width), starts)
    return be.add_vector(spread(be, totals, width), np.where(inside, offset, 0.0))
