"""Published numbers are rounded outwards to 8 bits of mantissa: wide enough for what was measured, and no
exact copy of it.

An interval of calibration is a deterministic function of weights and sentences. In full precision one of them
tells a checkpoint, and each is an equation on its weights; the extremes over an operator's own sentences tell
these. With 8 bits an interval grows by 2^-7 of its ends at most, which no approximation notices. It stays a
fingerprint for somebody who holds candidates: some hundred values of 8 bits tell any two checkpoints apart
(docs/threat-model.md). Numbers that bound nothing, such as the coefficients of a row estimate, go to the
nearest such number.
"""

from __future__ import annotations

import math

BITS = 8  # of the mantissa, its leading one included

Interval = tuple[float, float]


def up(value: float) -> float:
    """The least number of 8 bits that is not below. Raises OverflowError or ValueError for what is not
    finite."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, BITS)), exponent - BITS)


def down(value: float) -> float:
    """The largest number of 8 bits that is not above."""
    return -up(-value)


def nearest(value: float) -> float:
    """The nearest number of 8 bits, for values that are no bound."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, BITS)), exponent - BITS)


def outwards(interval: Interval) -> Interval:
    """The least interval with ends of 8 bits around this one; a positive one stays positive."""
    return down(interval[0]), up(interval[1])


def share(value: float) -> float:
    """The half power of two nearest to a share (by its logarithm), in 8 bits; 0 for one below 2^-14. To
    weight a fit it serves as well as the share itself: DASHformer's probabilities move by 0.014 with either,
    by 0.017 with whole powers."""
    return nearest(2.0 ** (0.5 * round(2.0 * math.log2(value)))) if value >= 2.0**-14 else 0.0
