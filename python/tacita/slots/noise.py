"""Noise of slots in `sim`: standard deviations of what each operation adds, at scale Delta = 2^44.

A rounding or key-switching error of standard deviation e per coefficient is e * sqrt(N) / Delta in the slots
(canonical embedding). With a uniform ternary secret, rescaling leaves e = sqrt((1 + 2N/3) / 12); key
switching with special primes above the digit size leaves the same rounding after mod-down plus a term below
it; encryption under the public key leaves sigma * sqrt(4N/3 + 1), sigma = 3.2. Bootstrapping is measured, not
derived.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True)
class NoiseModel:
    """Standard deviations per slot. bootstrap: of one refresh (2^-22 as measured for the engine's preset)."""

    slots: int
    scale_bits: float = 44.0
    bootstrap: float = 2.0**-22

    @property
    def _unit(self) -> float:
        return sqrt(2 * self.slots) * float(2.0**-self.scale_bits)

    @property
    def rescale(self) -> float:
        """Added by one rescaling."""
        return sqrt((1 + 4 * self.slots / 3) / 12) * self._unit

    @property
    def key_switch(self) -> float:
        """Added by a rotation, conjugation or relinearisation (rounding of mod-down, digits' noise of equal
        size)."""
        return sqrt(2.0) * self.rescale

    @property
    def fresh(self) -> float:
        """Of a public-key encryption."""
        return 3.2 * sqrt(8 * self.slots / 3 + 1) * self._unit
