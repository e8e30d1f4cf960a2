"""Fixed-point numbers as integers, without the sharing: what the two parties' shares add up to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Dense
from tacita.blocks.weights import Weights
from tacita.two_party.base import Array

Integers = NDArray[np.int64]
EXACT = 1 << 53  # doubles hold every integer up to here
WORD = 1 << 62
WORD_BITS, MOST_FACTOR = 64, 9e15


@dataclass(frozen=True)
class Fixed:
    """values * 2^-fraction."""

    values: Integers
    fraction: int

    @property
    def floats(self) -> Array:
        """The numbers that are meant."""
        return np.ldexp(self.values.astype(np.float64), -self.fraction)

    def at(self, fraction: int) -> Fixed:
        """With so many fraction bits: fewer are rounded to the nearest, where shares round up or down at
        random, right on average."""
        gained = fraction - self.fraction
        return Fixed(self.values << gained if gained >= 0 else rounded(self.values, -gained), fraction)


@dataclass(frozen=True)
class Format:
    """A ring's bits and the fraction bits in it."""

    ring: int
    fraction: int


FACTOR_ERROR = 2.0**-14  # relative, that a rounded public factor may have


def rescaled(x: Integers, start: Format, factor: float, to: Format) -> Integers:
    """x * factor in another format: times an integer, then bits off, in the fewest bits that keep the factor
    to 2^-14."""
    for ring in (start.ring, *range(max(start.ring + 1, to.ring), WORD_BITS + 1)):
        for drop in range(ring - to.ring + 1):
            exact = math.ldexp(factor, to.fraction - start.fraction + drop)
            whole = constant(exact, 0)
            if whole and abs(whole / exact - 1.0) < FACTOR_ERROR and abs(whole) < MOST_FACTOR:
                return rounded(x * whole, drop)
    raise ValueError(f"no ring of up to 64 bits takes {start} times {factor} to {to}")


def rounded(x: Integers, bits: int) -> Integers:
    """The nearest integer to x / 2^bits."""
    return (x + (1 << bits >> 1)) >> bits


def constant(value: float, fraction: int) -> int:
    """A public number as an integer, halves away from zero as the engine rounds."""
    scaled = math.ldexp(value, fraction)
    return int(math.copysign(math.floor(abs(scaled) + 0.5), scaled))


def encode(x: Array, fraction: int) -> Integers:
    """The nearest integers to x * 2^fraction."""
    return np.rint(np.ldexp(x, fraction)).astype(np.int64)


def weight_integers(weights: Weights, maps: tuple[Dense, ...], fraction: int) -> Integers:
    """W^T (inputs, outputs) of several maps side by side, row by row in memory. Converted at the first call,
    then kept: for BERT-base that is seconds a text, and as much memory as the weights take."""

    def make() -> Integers:
        return np.ascontiguousarray(encode(weights.stacked(maps)[0].T, fraction))

    found: Integers = weights.kept((maps, fraction), make)
    return found


def matmul(x: Integers, y: Integers) -> Integers:
    """x @ y exactly, by products of doubles of few enough bits. Raises OverflowError when a sum could pass
    2^62."""
    largest = _largest(x) * _largest(y) * x.shape[-1]
    if largest < EXACT:
        return np.asarray((x.astype(np.float64) @ y.astype(np.float64)).astype(np.int64))
    if largest >= WORD:
        raise OverflowError(f"matmul: sums up to {largest:.3g}")
    if _largest(x) < _largest(y):
        return np.asarray(np.swapaxes(matmul(np.swapaxes(y, -1, -2), np.swapaxes(x, -1, -2)), -1, -2))
    half = _largest(x).bit_length() // 2
    high, low = x >> half, x & ((1 << half) - 1)
    return (matmul(high, y) << half) + matmul(low, y)


def _largest(x: Integers) -> int:
    return int(np.abs(x).max(initial=0))
