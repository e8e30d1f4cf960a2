"""Which correlated transfers a session uses.

Ferret sends a sixth of a byte for each, but 0.9 MB before the first one; SoftSpoken sends four bytes each and
next to nothing before. The literature prefers the second on fast links; here Ferret also takes less than half
of its time, so that what decides is how many a session needs: below about 100,000 over a link of 1 Gbit/s,
SoftSpoken is quicker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacita.two_party.program.program import CORRELATIONS


@dataclass(frozen=True)
class Price:
    """seconds: by the clock for a transfer, both parties at work; bytes: on the wire; start: bytes before the
    first one."""

    seconds: float
    bytes: float
    start: float


# Measured on a 2-core EPYC with AVX-512 by python -m bench correlation-prices.
PRICES = {
    "ferret": Price(2.61e-08, 0.169, 8.73e05),
    "softspoken": Price(6.53e-08, 3.88, 8.82e04),
}


def seconds(kind: str, transfers: float, bits_per_second: float) -> float:
    """Estimates the time that so many transfers take over such a link."""
    price = PRICES[kind]
    return transfers * price.seconds + 8.0 * (price.start + transfers * price.bytes) / bits_per_second


def quicker(transfers: float, bits_per_second: float) -> str:
    """Returns the kind that takes less time."""
    return min(CORRELATIONS, key=lambda kind: seconds(kind, transfers, bits_per_second))


def in_words(log2: float) -> str:
    """Words the probability for people: "never", or a bound."""
    return "never" if log2 == -math.inf else f"with probability below 2^{log2:.1f} a text"
