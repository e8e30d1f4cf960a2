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
from typing import Any

import numpy as np
import numpy.typing as npt


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


def row_length(weights: npt.NDArray[Any]) -> float:
    """Root mean square over the outputs of a matrix of the length of their weights."""
    return float(np.sqrt(np.mean(np.sum(weights**2, axis=1))))


def series_slope(coeffs: npt.NDArray[Any]) -> float:
    """Root mean square derivative of a Chebyshev series on [-1, 1]."""
    slope = np.polynomial.chebyshev.chebder(np.asarray(coeffs))
    values = np.polynomial.chebyshev.chebval(np.linspace(-1, 1, 257), slope)
    return float(np.sqrt(np.mean(np.abs(values) ** 2)))


def combined(*parts: float) -> float:
    """Standard deviation of a sum of independent errors."""
    return sqrt(sum(p * p for p in parts))
