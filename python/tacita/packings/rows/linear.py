"""Linear layers on rows, centring folded into weights, and the residual branch that has to be centred apart.

LayerNorm only sees its input minus its mean. Centring is linear, so the projection before a LayerNorm is
built from centred weights (no cost), and only the residual is centred by rotations, on a branch that is not
the deepest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.complexify import RealMap
from tacita.packings.one_text.linear import Linear
from tacita.packings.rotations import rotate_sum, spread
from tacita.packings.rows.layout import FeatureLayout, linear_diagonals, restore_copies
from tacita.slots.base import Backend, Ct
from tacita.slots.diagonals.table import Diagonals

Pair = tuple[Array, Array]  # weight and bias


@dataclass(frozen=True, eq=False)
class Affine:
    """y = x @ weight.T + bias between layouts; y at the first copy of dst, zero elsewhere. One level."""

    map: RealMap
    bias: tuple[Array, ...]

    @staticmethod
    def build(weight: Array, bias: Array, src: FeatureLayout, dst: FeatureLayout) -> Affine:
        """weight (dst.size, src.size), bias (dst.size,)."""
        diagonals = linear_diagonals(weight, src, dst)
        found = RealMap.build(diagonals, n_inputs=src.count, n_outputs=dst.count)
        return Affine(found, tuple(dst.vectors(bias)))

    @staticmethod
    def stacked(parts: Sequence[Pair], src: FeatureLayout, dst: FeatureLayout) -> Affine:
        """Several of one input, by the same rotations of it: the ciphertexts of each."""
        tables = [linear_diagonals(w, src, dst, n * dst.count) for n, (w, _) in enumerate(parts)]
        count = dst.count * len(parts)
        found = RealMap.build(Diagonals.joined(tables), n_inputs=src.count, n_outputs=count)
        return Affine(found, tuple(v for _, bias in parts for v in dst.vectors(bias)))

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
    kept = [be.mul_vector(ct, v) for ct, v in zip(x, ones, strict=True)]
    if not centred:
        return tuple(kept)
    if layout.count == 1 and layout.copies(0) > 1:
        total = rotate_sum(be, x[0], layout.blocks[0])
        return (be.sub(kept[0], be.mul_vector(total, ones[0] / layout.size)),)
    means = _means(be, x, layout)
    parts = [be.mul_vector(means, v) for v in ones]
    return tuple(be.sub(a, b) for a, b in zip(kept, parts, strict=True))


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
