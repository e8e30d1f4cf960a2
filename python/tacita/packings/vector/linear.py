"""Dense maps of a vector, and the residual that loses its mean apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.packings.one_text.linear import Linear, TextNorm
from tacita.packings.stored import Stored
from tacita.slots.base import Backend, Ct


def linear_of(layout: VectorLayout) -> Linear[VectorLayout]:
    """How blocks compute on vectors."""
    return Linear(layout, affine, stacked, residual, layout)


def affine(weight: Array, bias: Array, src: VectorLayout, dst: VectorLayout) -> CyclicMap:
    """Builds y = x @ weight.T + bias between vectors. One level."""
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


# LayerNorm of a vector (`one_text.norm`): one level less, for a bound that makes its scale an integer.


def exact_bound(bound: float, rsqrt: Spec, size: int) -> float:
    """The least bound >= `bound` for which the variance of a tensor stored by it takes no level to scale: the
    sum of its squares times an integer is then the variance in the stored form of rsqrt."""
    scale = Stored.input_of(rsqrt).scale / size
    return float(np.sqrt(ceil(bound**2 * scale) / scale))


@dataclass(frozen=True, eq=False)
class VectorNorm(TextNorm[VectorLayout]):
    """LayerNorm in vector packing. entry: from `exact_bound`."""

    def variance(self, be: Backend, x: tuple[Ct, ...]) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, in every slot. One level."""
        total = rotate_sum(be, be.square(x[0]), self.layout.period)
        return be.add_const(be.mul_int(total, round(self.scale)), self.offset)
