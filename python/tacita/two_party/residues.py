"""One party's share of a fixed-point tensor, and what can be done to it alone.

Shares are residues modulo 2^ring that add up to the value times 2^fraction. Modulo a smaller power of two
they stay shares; dropping low bits while the ring shrinks by as many is local too: the client adds one unit
after it, so that the result is the next number below or above, right on average; multiplying by 2^d makes the
ring grow by d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.two_party.base import Array

Words = NDArray[np.uint64]
WORD = 64


@dataclass(frozen=True)
class Share:
    """values: canonical residues modulo 2^ring of value * 2^fraction, any shape. No repr of the values: they
    are secret."""

    values: Words
    ring: int
    fraction: int

    def __repr__(self) -> str:
        return f"Share{self.values.shape} mod 2^{self.ring}, fraction {self.fraction}"

    def like(self, values: Words) -> Share:
        """Other values in the same format."""
        return Share(np.ascontiguousarray(values), self.ring, self.fraction)

    def plus(self, other: Share) -> Share:
        """The sum, in this one's format; the other has the same fraction, the same ring or a larger, and a
        shape that fits."""
        return self.like(reduced(self.values + other.values, self.ring))

    def behind(self, other: Share) -> Share:
        """The rows of the other, in the same format, behind these."""
        if (other.ring, other.fraction) != (self.ring, self.fraction):
            raise ValueError(f"rows of {other!r} behind {self!r}: another format")
        return self.like(np.concatenate([self.values, other.values], axis=-2))

    def minus(self, other: Share) -> Share:
        """The difference, likewise."""
        return self.like(reduced(self.values - other.values, self.ring))

    def scaled(self, fraction: int, *, client: bool) -> Share:
        """With so many fraction bits; the ring moves along, up to 64 bits."""
        gained = fraction - self.fraction
        if gained < 0:
            one, ring = np.uint64(client), self.ring + gained
            return Share(reduced((self.values >> np.uint64(-gained)) + one, ring), ring, fraction)
        ring = min(self.ring + gained, WORD)
        return Share(reduced(self.values << np.uint64(gained), ring), ring, fraction)

    def reduced(self, ring: int) -> Share:
        """Modulo 2^ring, a smaller ring or the same."""
        if ring > self.ring:
            raise ValueError(f"a share modulo 2^{self.ring} does not say its value modulo 2^{ring}")
        return Share(reduced(self.values, ring), ring, self.fraction)


def reduced(values: Words, ring: int) -> Words:
    """Residues modulo 2^ring."""
    return values if ring == WORD else values & np.uint64((1 << ring) - 1)


def from_floats(x: Array, fraction: int, ring: int) -> Share:
    """x * 2^fraction, rounded, modulo 2^ring: a value that one party knows, as its share."""
    values = np.rint(np.ldexp(x, fraction)).astype(np.int64).view(np.uint64)
    return Share(np.ascontiguousarray(reduced(values, ring)), ring, fraction)


def zeros(shape: tuple[int, ...], fraction: int, ring: int) -> Share:
    """The share of a party that knows nothing of the value."""
    return Share(np.zeros(shape, np.uint64), ring, fraction)


def opened(share: Share, other: Words) -> Array:
    """The value, from both shares."""
    total = reduced(share.values + other, share.ring)
    signed = (total << np.uint64(WORD - share.ring)).view(np.int64) >> (WORD - share.ring)
    return np.ldexp(signed.astype(np.float64), -share.fraction)
