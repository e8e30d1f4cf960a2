"""Row sums of several windows in one ciphertext, so that one bootstrap refreshes them all.

A window's sums are one number for each token and head, in every position of the head. With three windows of
four heads of 64 positions, window i keeps its sums in positions [16 i, 16 i + 16) of each head only; the
three then add up to one ciphertext, and a linear map brings each back to all 64 positions where it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacita.approx.iterative import GoldschmidtSpec
from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array, Diagonal, ceil_power
from tacita.layouts.rotations import rotate_sum, spread
from tacita.layouts.rows import FeatureLayout, linear_diagonals
from tacita.layouts.windows import HeadWindow
from tacita.packings.one_text.attention import AttentionSpecs
from tacita.packings.rows.maps import fold_heads, folded_layout
from tacita.packings.stored import Pair, Side, Stored, divide, inverted
from tacita.packings.weights import AttentionWeights
from tacita.slots.base import Backend, Ct
from tacita.slots.diagonals import Diagonals
from tacita.slots.linear import LinearPlan

KEPT = 8  # plans: the same in all layers


@dataclass(frozen=True)
class Gathered:
    """Windows whose row sums share a ciphertext. windows: in order, each with sums of its own."""

    windows: tuple[HeadWindow, ...]

    @staticmethod
    def of(windows: Sequence[HeadWindow]) -> Gathered | None:
        """None where there are no two windows, or more of them than a head has positions."""
        few = len(windows) < 2 or ceil_power(len(windows)) > windows[0].width
        return None if few else Gathered(tuple(windows))

    @property
    def part(self) -> int:
        """Positions of a head that one window's sums have; at most half of the head."""
        return self.windows[0].width // ceil_power(len(self.windows))

    def places(self, number: int) -> Array:
        """bool [window]: where the sums of the window of this number are."""
        window = self.windows[number]
        p = np.arange(window.shape.window)
        mine: Array = (p % window.width // self.part == number) & (p < window.width * len(window.heads))
        return mine

    @property
    def filled(self) -> Array:
        """bool [window]: where any sums are."""
        filled: Array = np.any([self.places(number) for number in range(len(self.windows))], axis=0)
        return filled

    def divide(self, be: Backend, numerators: Sequence[Ct], sums: Ct, spec: Spec) -> list[Ct]:
        """Divides each window's numerator by its row sums, as `stored.divide` does. One level more below the
        sums.

        A polynomial is evaluated once, before its values are spread; an iteration needs each numerator.
        """
        if isinstance(spec, GoldschmidtSpec):
            each = be.linear([sums], self.spread)
            return [divide(be, numerator, s, spec) for numerator, s in zip(numerators, each, strict=True)]
        each = be.linear([inverted(be, sums, spec)], self.spread)
        return [be.mul(numerator, s) for numerator, s in zip(numerators, each, strict=True)]

    @property
    def spread(self) -> LinearPlan:
        """Sums of all windows -> one ciphertext a window, each sum at all positions of its head, zero
        elsewhere. One level; fewer than two rotations for each part of a head."""
        return _spread(self)


@lru_cache(maxsize=KEPT)
def _spread(gathered: Gathered) -> LinearPlan:
    windows, part = gathered.windows, gathered.part
    diagonals: Diagonal = {}
    for number, window in enumerate(windows):
        p = np.arange(window.shape.window)
        for block in range(window.width // part):
            at = (p % window.width // part == block) & (p < window.width * len(window.heads))
            diagonals[number, 0, (number - block) * part] = np.where(at, 1.0, 0.0)
    return LinearPlan.from_diagonals(diagonals, n_inputs=1, n_outputs=len(windows))


# Folded queries and keys of rows, and their norms head by head.

Cts = tuple[Ct, ...]


def query_key_factor(specs: AttentionSpecs, windows: tuple[HeadWindow, ...], features: int) -> float:
    """The factor of queries and of keys by which the real part of their product plus its conjugate is the
    stored score."""
    size = features // sum(len(w.heads) for w in windows)
    return float(np.sqrt(0.5 * Stored.input_of(specs.exp).scale / np.sqrt(size)))


def folded_maps(
    query: Pair,
    key: Pair,
    layout: FeatureLayout,
    windows: tuple[HeadWindow, ...],
    *,
    scale: float,
    entry: float,
    halves: bool,
) -> tuple[LinearPlan, tuple[Array, ...]]:
    """One plan for folded Q and conjugated folded K, which share the rotations of x, and their biases. scale:
    of both. entry: what x is divided by. halves: as of `fold_heads`."""
    heads, folded = sum(len(w.heads) for w in windows), folded_layout(windows)
    parts: list[Diagonals] = []
    bias: list[Array] = []
    for n, (weight, offset) in enumerate((query, key)):
        conjugate, width = n == 1, windows[0].width
        matrix = fold_heads(weight * (scale * entry), heads, width, conjugate=conjugate, halves=halves)
        parts.append(linear_diagonals(matrix, layout, folded, n * len(windows)))
        bias += folded.vectors(fold_heads(offset * scale, heads, width, conjugate=conjugate, halves=halves))
    diagonals = Diagonals.joined(parts)
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=layout.count, n_outputs=2 * len(windows))
    return plan, tuple(bias)


@dataclass(frozen=True, eq=False)
class Normalising:
    """Variances of folded queries and keys. betas: what is added to them once they are normalised."""

    windows: tuple[HeadWindow, ...]
    sides: tuple[Side, Side]
    squared: LinearPlan
    bias: tuple[Array, ...]
    betas: tuple[Array, ...]

    @staticmethod
    def build(
        weights: AttentionWeights,
        specs: AttentionSpecs,
        layout: FeatureLayout,
        windows: tuple[HeadWindow, ...],
    ) -> Normalising:
        """Builds the maps; arguments as of `Attention.build`."""
        assert weights.normed is not None
        sides = weights.normed.queries, weights.normed.keys
        halves, factor = (
            weights.positional.rotary is not None,
            query_key_factor(specs, windows, len(weights.query)),
        )
        pairs = sides[0].squared, sides[1].squared
        plan, bias = folded_maps(*pairs, layout, windows, scale=1.0, entry=specs.entry, halves=halves)
        heads, folded = sum(len(w.heads) for w in windows), folded_layout(windows)
        betas = [
            v
            for n, side in enumerate(sides)
            for v in folded.vectors(
                fold_heads(side.beta * factor, heads, windows[0].width, conjugate=n == 1, halves=halves)
            )
        ]
        return Normalising(windows, sides, plan, bias, tuple(betas))

    def variances(self, be: Backend, x: Cts) -> tuple[Cts, Cts]:
        """Maps x to the variances of queries and of keys in every position of a folded head, stored for their
        rsqrt: a ciphertext a window. 3 levels."""
        outputs = [be.add_vector(ct, b) for ct, b in zip(be.linear(x, self.squared), self.bias, strict=True)]
        n = len(self.windows)
        queries, keys = (
            tuple(self._sums(be, *pair, side) for pair in zip(self.windows, part, strict=True))
            for side, part in zip(self.sides, (outputs[:n], outputs[n:]), strict=True)
        )
        return queries, keys

    def _sums(self, be: Backend, window: HeadWindow, ct: Ct, side: Side) -> Ct:
        """Squares of both parts, added up over each head."""
        squares = be.mul(ct, be.conjugate(ct))
        inside = np.arange(window.shape.window) < window.half * len(window.heads)
        return head_sums(be, squares, inside, window.half, side.offset)


def head_sums(be: Backend, ct: Ct, inside: Array, width: int, offset: float) -> Ct:
    """Sums over each head's `width` positions, in all of them, plus an offset; zero outside. One level."""
    starts = np.where(inside & (np.arange(inside.size) % width == 0), 1.0, 0.0)
    totals = be.mul_vector(rotate_sum(be, ct, width), starts)
    return be.add_vector(spread(be, totals, width), np.where(inside, offset, 0.0))
