"""Cosines and sines of rotary positions as integers, the same at both parties.

Each party multiplies its share by them, so a last place that differs between two machines would turn a shared
value into noise. Libraries of floats promise no last place; here the first angles come from `decimal`, whose
results are defined digit by digit, and the others from integers.
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache

import numpy as np

from tacita.two_party.arithmetic.base import Integers

GUARD = 96  # fraction bits of the recurrence, which loses a unit a token
EXACT = Context(prec=45)
Angles = tuple[float, tuple[float, ...]]  # base and scales of `blocks.base.Rotary`


@lru_cache(maxsize=8)
def turns(angles: Angles, tokens: int, size: int, fraction: int) -> tuple[Integers, Integers]:
    """Returns cosines and sines, (tokens, size / 2) each, with so many fraction bits: those of
    `blocks.sequence.angles`, rounded. Takes a tenth of a second for 512 tokens; the results are cached."""
    cos, sin = np.empty((2, tokens, size // 2), np.int64)
    for i in range(size // 2):  # a column's numbers at a time: Python's take ten times as much
        cos[:, i], sin[:, i] = np.array(_column(_first(angles, i, size), tokens, GUARD - fraction)).T
    return cos, sin


def turned_from(
    angles: Angles, first: int, shape: tuple[int, ...], fraction: int
) -> tuple[Integers, Integers]:
    """Returns cosines and sines for (..., tokens, size) whose first token has the position `first`: rows of a
    table whose length is a power of two, so that the steps of a decoder share few tables."""
    end, size = first + shape[-2], shape[-1]
    rows = end if first == 0 else 1 << (end - 1).bit_length()
    cos, sin = turns(angles, rows, size, fraction)
    return cos[first:end], sin[first:end]


def _first(angles: Angles, index: int, size: int) -> tuple[int, int]:
    """Computes cosine and sine of scale_index base^(-2 index / size), with GUARD bits."""
    base, scales = angles
    exponent = EXACT.divide(Decimal(-2 * index), Decimal(size))
    angle = EXACT.power(Decimal(base), exponent)
    angle = EXACT.multiply(angle, Decimal(scales[index])) if scales else angle
    cos, sin, term, n = Decimal(0), Decimal(0), Decimal(1), 0
    while abs(term) > Decimal("1e-40"):
        if n % 2:
            sin = EXACT.add(sin, term if n % 4 == 1 else -term)
        else:
            cos = EXACT.add(cos, term if n % 4 == 0 else -term)
        n += 1
        term = EXACT.divide(EXACT.multiply(term, angle), Decimal(n))
    return _whole(cos), _whole(sin)


def _whole(x: Decimal) -> int:
    """Converts to an integer with GUARD fraction bits."""
    return int(EXACT.multiply(x, Decimal(1 << GUARD)).to_integral_value())


def _column(first: tuple[int, int], tokens: int, drop: int) -> list[tuple[int, int]]:
    """Returns cosines and sines of the multiples 0, 1, ... of an angle, without the last `drop` bits."""
    (c, s), (cos, sin), pairs = first, (1 << GUARD, 0), []
    for _ in range(tokens):
        pairs.append((_rounded(cos, drop), _rounded(sin, drop)))
        cos, sin = _rounded(cos * c - sin * s, GUARD), _rounded(sin * c + cos * s, GUARD)
    return pairs


def _rounded(x: int, bits: int) -> int:
    return (x + (1 << bits >> 1)) >> bits
