"""LayerNorm of a vector: variance, inverse square root, affine map; and the mean taken from a residual."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.rotations import rotate_sum
from tacita.packings.stored import Stored, apply, output_bound
from tacita.packings.vector.layout import VectorLayout
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


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
    """LayerNorm in vector packing. rsqrt: of variance + epsilon. entry: from `exact_bound`.

    exit: bound of the result. gamma, beta: (size,).
    """

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
        """Stored variance -> 1/sqrt(variance + epsilon) / its largest value. Levels: the spec's."""
        return apply(be, variance, self.rsqrt, 1.0 / output_bound(self.rsqrt))

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """(x * root * gamma + beta) / exit. 2 levels below x, 1 below root."""
        scale = self.entry * output_bound(self.rsqrt) / self.exit
        scaled = be.mul(be.mul_vector(x[0], self.layout.vector(self.gamma * scale)), root)
        return (be.add_vector(scaled, self.layout.vector(self.beta / self.exit)),)
