"""Non-linear functions on fixed-point integers, step by step as `crates/mpc/src/nonlinear` computes them on
shares.

Rounding is to the nearest where shares round up or down at random; thresholds of coarse copies are met the
same way. Values outside the stated ranges give some number, as they would there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.two_party.arithmetic import residues
from tacita.two_party.arithmetic.base import (
    POWER,
    Array,
    Fixed,
    Format,
    Integers,
    constant,
    encode,
    rescaled,
)
from tacita.two_party.arithmetic.residues import Chain

NARROW = 15  # fraction bits of a chain
FINE = 14  # of an activation before it is widened
EXP_LEAST, EXP_COARSE = -10.5, 4
MAX_COARSE = 5
INVERSE = 22  # of the chains of 1/x and 1/sqrt(x)
ROOTS = 18  # of the table of roots
NORM_RING = 56  # of a LayerNorm's products


@dataclass(frozen=True)
class Bump:
    """An activation's h in max(x, 0) - h(|x|) where |x| < limit."""

    chain: Chain
    limit: float


# by function and form; SiLU's bump decays as x exp(-x), so it is fitted further out and takes a square more
BUMPS = {
    "gelu": {"abs4": Bump(residues.GELU, 3.25), "abs8": Bump(residues.GELU_FINE, 4.0)},
    "gelu_tanh": {"abs4": Bump(residues.GELU_TANH, 3.25), "abs8": Bump(residues.GELU_TANH_FINE, 4.0)},
    "silu": {"abs4": Bump(residues.SILU, 8.25), "abs8": Bump(residues.SILU_FINE, 10.0)},
}


def narrow(fraction: int) -> Format:
    """Returns the format in which a chain starts."""
    return Format(2 * fraction + 2, fraction)


def coarse(x: Fixed, ring: int, bits: int, range_bits: int) -> Integers:
    """Returns the copy of x that is compared with thresholds."""
    return rescaled(x.values, Format(ring, x.fraction), 1.0, Format(range_bits + bits + 2, bits))


def bumped(x: Fixed, ring: int, range_bits: int, bump: Bump) -> Fixed:
    """Computes max(x, 0) - 1{|x| < limit} bump(|x|), with `FINE` fraction bits or those of x if fewer."""
    fraction = min(FINE, x.fraction)
    low = coarse(x, ring, 6, range_bits)
    limit = constant(bump.limit, 6)
    negative, inside = low < 0, (low >= -limit) & (low < limit)
    size = rescaled(x.values, Format(ring, x.fraction), bump.chain.sigma, narrow(NARROW))
    size = np.where(inside, np.where(negative, -size, size), 0)  # outside, its value is not used
    height = bump.chain.evaluate(size, NARROW).at(fraction)
    value = x.at(fraction).values
    return Fixed(np.where(negative, 0, value) - np.where(inside, height.values, 0), fraction)


def exp(x: Fixed, ring: int, range_bits: int) -> Fixed:
    """Computes exp(x) for x up to 0.25, 0 below `EXP_LEAST`; `POWER` fraction bits."""
    return power(x, ring, coarse(x, ring, EXP_COARSE, range_bits) >= constant(EXP_LEAST, EXP_COARSE))


def power(x: Fixed, ring: int, inside: NDArray[np.bool_]) -> Fixed:
    """Computes exp(x) where x is inside, and 0 elsewhere; `POWER` fraction bits."""
    scaled = rescaled(x.values, Format(ring, x.fraction), residues.ROOT_EXP.sigma, narrow(NARROW))
    half = residues.ROOT_EXP.evaluate(np.where(inside, scaled, 0), NARROW, squared=True)
    return Fixed(np.where(inside, half.values, 0), POWER)


def elu(x: Fixed, ring: int, range_bits: int) -> Fixed:
    """Computes exp(x) - 1 below zero and x above, with `FINE` fraction bits or those of x if it has fewer."""
    low, fraction = coarse(x, ring, 6, range_bits), min(FINE, x.fraction)
    exponential = power(x, ring, (low < 0) & (low >= constant(EXP_LEAST, 6))).at(fraction).values
    return Fixed(np.where(low < 0, exponential - constant(1.0, fraction), x.at(fraction).values), fraction)


def tanh(x: Fixed, ring: int, range_bits: int) -> Fixed:
    """Computes 1 - chain(|x|) with the sign of x, 1 beyond 4."""
    low, limit = coarse(x, ring, 8, range_bits), constant(4.0, 8)
    inside = (low >= -limit) & (low < limit)
    size = rescaled(x.values, Format(ring, x.fraction), residues.TANH.sigma, narrow(NARROW))
    size = np.where(inside, np.where(low < 0, -size, size), 0)  # outside, its value is not used
    rest = residues.TANH.evaluate(size, NARROW)
    value = constant(1.0, rest.fraction) - np.where(inside, rest.values, 0)
    return Fixed(np.where(low < 0, -value, value), rest.fraction)


def softmax_parts(scores: Fixed, ring: int, range_bits: int, inverse: int) -> tuple[Fixed, Fixed]:
    """Returns numerators exp(x - max) of each row, and the inverse (..., 1) of their sum with `inverse`
    fraction bits."""
    low = coarse(scores, ring, MAX_COARSE, range_bits).max(axis=-1, keepdims=True)
    below = Fixed(scores.values - Fixed(low, MAX_COARSE).at(scores.fraction).values, scores.fraction)
    powers = exp(below, ring, range_bits + 1)
    total = powers.values.sum(axis=-1, keepdims=True)
    top = math.floor(math.log2(scores.values.shape[-1] * 1.1)) + 1
    return powers, reciprocal(Fixed(total, POWER), (-1, top), inverse)


def reciprocal(x: Fixed, span: tuple[int, int], fraction: int) -> Fixed:
    """Computes 1/x for 2^span[0] <= x < 2^span[1]."""
    exponent, n, top = normalised(x, span)
    inverse = apply(n, top, residues.RECIPROCAL)
    product = inverse.values << exponent
    return placed(product, inverse.fraction + top - x.fraction, fraction)


def rsqrt(x: Fixed, span: tuple[int, int], factor: float, fraction: int) -> Fixed:
    """Computes factor / sqrt(x) for 2^span[0] <= x < 2^span[1]."""
    exponent, n, top = normalised(x, span)
    scale = factor * 2.0 ** (0.5 * (x.fraction - top))
    power = math.floor(math.log2(scale))
    unit = scale / 2.0**power * 2.0**ROOTS
    table = np.array([constant(unit * 2.0 ** (0.5 * k), 0) for k in range(span[1] - span[0])])
    root = apply(n, top, residues.RSQRT)
    return placed(root.values * table[exponent], root.fraction + ROOTS - power, fraction)


def normalised(x: Fixed, span: tuple[int, int]) -> tuple[Integers, Integers, int]:
    """Returns k and 2^k x in [2^(top-1), 2^top), with the log2 of the bound on x as an integer."""
    bottom, top = (end + x.fraction for end in span)
    bits = np.frexp(x.values.astype(np.float64))[1]  # 2^(bits-1) <= x < 2^bits
    exponent = np.clip(top - bits, 0, top - bottom - 1).astype(np.int64)
    return exponent, x.values << exponent, top


def apply(n: Integers, top: int, chain: Chain) -> Fixed:
    """Evaluates the chain of n / 2^top in [1/2, 1)."""
    low = Fixed(n, top).at(min(INVERSE, top))
    return chain.evaluate(
        rescaled(low.values, Format(64, low.fraction), chain.sigma, narrow(INVERSE)), INVERSE
    )


def placed(x: Integers, fraction: int, to: int) -> Fixed:
    """Converts x with any (also negative) number of fraction bits to `to` bits."""
    return Fixed(x << -fraction << to, to) if fraction < 0 else Fixed(x, fraction).at(to)


@dataclass(frozen=True)
class NormLayout:
    """Fraction bits that follow from a LayerNorm's public bounds.

    up: v = (x - mean) size / 2^up is below 1. value, inverse, gamma: fraction bits of v, of its inverse
    deviation, of gamma. span: powers of two between which the sum of squares of v lies.
    """

    up: int
    value: int
    inverse: int
    gamma: int
    span: tuple[int, int]

    @property
    def sums(self) -> bool:
        """Whether `NORM_RING` holds the sums of squares of v, as it has to where values are many: of rows of
        1024 numbers where deviations are a 256th of the bound or more, of shorter ones always."""
        return 2 * self.value + self.span[1] + 2 <= NORM_RING


def norm_layout(size: int, bound: float, least: float, gamma: float) -> NormLayout:
    """Returns the fraction bits that the engine chooses. bound: of |x - mean|; least: of deviations; gamma: a
    bound of its magnitude. Raises ValueError for bounds that 56 bits cannot hold."""
    up = math.ceil(math.log2(bound * size))
    ratio = max(1, math.ceil(math.log2(2.0**up / size / least)))
    value = min(max(13 + ratio, 16), 22)
    largest = max(0, math.ceil(math.log2(min(math.sqrt(size), 2.0**ratio) * gamma)))
    spare = NORM_RING - 2 - value - largest
    if spare < 20 or ratio > 13:
        raise ValueError(f"deviations over 2^{ratio}, results up to 2^{largest}")
    high = math.floor(math.log2(size)) + 1
    return NormLayout(up, value, spare // 2, spare - spare // 2, (high - 1 - 2 * ratio, high))


def layer_norm(
    x: Fixed,
    affine: tuple[Array, Array],
    layout: NormLayout,
    fraction: int,
    *,
    epsilon: float,
    centred: bool,
) -> Fixed:
    """Computes gamma v / deviation(v) + beta, in one product of three factors. affine: gamma, beta."""
    (gamma, beta), size = affine, x.values.shape[-1]
    distances = size * x.values
    if centred:
        distances = distances - x.values.sum(axis=-1, keepdims=True)
    v = Fixed(distances, x.fraction + layout.up).at(layout.value).values
    least = epsilon / (2.0**layout.up / size) ** 2 * size
    squares = (v * v).sum(axis=-1, keepdims=True) + constant(least, 2 * layout.value)
    inverse = rsqrt(Fixed(squares, 2 * layout.value), layout.span, math.sqrt(size), layout.inverse).values
    product = v * inverse * encode(gamma, layout.gamma)
    result = Fixed(product, layout.value + layout.inverse + layout.gamma).at(fraction)
    return Fixed(result.values + encode(beta, fraction), fraction)
