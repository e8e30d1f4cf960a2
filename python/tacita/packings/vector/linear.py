"""Dense maps of a vector, and the residual that loses its mean apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.one_text.linear import Linear
from tacita.packings.rotations import rotate_sum
from tacita.packings.vector.layout import CyclicMap, VectorLayout
from tacita.slots.base import Backend, Ct


def linear_of(layout: VectorLayout) -> Linear[VectorLayout]:
    """How blocks compute on vectors."""
    return Linear(layout, affine, stacked, residual, layout)


def affine(weight: Array, bias: Array, src: VectorLayout, dst: VectorLayout) -> CyclicMap:
    """y = x @ weight.T + bias between vectors. One level."""
    return CyclicMap.build(weight, bias, [src.index], [dst.index])


def stacked(parts: Sequence[tuple[Array, Array]], src: VectorLayout, dst: VectorLayout) -> CyclicMap:
    """Several maps of one vector, a ciphertext each."""
    weight, bias = (np.concatenate(side) for side in zip(*parts, strict=True))
    places = [np.where(dst.index >= 0, dst.index + n * dst.size, -1) for n in range(len(parts))]
    return CyclicMap.build(weight, bias, [src.index], places)


def residual(
    be: Backend, x: Sequence[Ct], layout: VectorLayout, factor: float, *, centred: bool
) -> tuple[Ct, ...]:
    """(x minus its mean over features, if centred) * factor, zero in the padding. One level; log2(period)
    rotations if centred."""
    ones = layout.vector(np.full(layout.size, factor))
    if not centred:
        return (be.mul_vector(x[0], ones),)
    total = rotate_sum(be, x[0], layout.period)
    return (be.sub(be.mul_vector(x[0], ones), be.mul_vector(total, ones / layout.size)),)
