"""Noise of slots in `sim`: standard deviations of what each operation adds to each part of a slot.

An error of standard deviation e per coefficient is e * sqrt(N / 2) / Delta in a part of a slot (canonical
embedding). Rescaling rounds both polynomials, and what it leaves is e0 + e1 s with a uniform ternary secret
s: e = sqrt((1 + 2N/3) / 12). Key switching with special primes above the digit size leaves the same rounding
after mod-down and next to nothing besides; encryption under the secret key leaves sigma = 3.2.

**It is not normal.** In slot j the product e1 s is a normal number times |s_j|, the secret's own slot, and
|s_j|^2 is distributed exponentially over the slots. So all that a key leaves is normal in each slot with a
variance that belongs to that slot and key, and over the slots it has the tail of a Laplace distribution:
kurtosis 6, beyond 4 deviations 55 times as often as a normal one, the largest of 65,536 at 8 deviations. A
slot that is noisy stays so in every operation. Measured on the engine (`tests/integration/test_noise.py`).

Bootstrapping is measured, not derived: such a part, which grows with N as rescaling does, and the error of
its series, which is normal enough and the same for all rings. The tail is there whatever the multiple of q0
in a slot (`crates/ckks/examples/bootstrap_noise.rs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import hypot, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST = 1 << 15  # slots of the ring that bootstraps at full security
GROWN = 2.0**-22.36  # of a bootstrap there; 2^-24.36 was measured at 2^13 slots, 2^-25.35 at 2^12
SERIES = 2.0**-24.9  # of the series of its modular reduction
DRAWN = 1 << 19  # normal numbers that a run draws
Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class NoiseModel:
    """Standard deviations of a part of a slot, over all slots. scale_bits: log2 of Delta. grown: of one
    bootstrap in the full ring, without its series."""

    slots: int
    scale_bits: float = 48.0
    grown: float = GROWN

    @cached_property
    def _unit(self) -> float:
        return sqrt(self.slots) * float(2.0**-self.scale_bits)

    @cached_property
    def rescale(self) -> float:
        """Standard deviation of the noise that one rescaling adds."""
        return sqrt((1 + 4 * self.slots / 3) / 12) * self._unit

    @cached_property
    def key_switch(self) -> float:
        """Standard deviation that a rotation, conjugation or relinearisation adds: mod-down's rounding."""
        return self.rescale

    @cached_property
    def fresh(self) -> float:
        """Standard deviation of what an encryption adds."""
        return 3.2 * self._unit

    @cached_property
    def bootstrap(self) -> float:
        """Standard deviation of what one refresh adds."""
        return hypot(self._grown, SERIES)

    @property
    def _grown(self) -> float:
        return self.grown * self.slots / LARGEST


class Draws:
    """Noise as a run of `sim` meets it: each slot has a size of its own that it keeps.

    Normal numbers are drawn once, and every operation takes a stretch of them from a random place, which
    costs a tenth of drawing them.
    """

    def __init__(self, model: NoiseModel, slots: int, seed: int) -> None:
        """slots: that are simulated, of a ring that may be larger."""
        self._model, self._rng = model, np.random.default_rng(seed)
        secret = self._rng.standard_exponential(slots)
        refreshed = (model._grown**2 * secret + SERIES**2) / model.bootstrap**2
        both = (np.repeat(np.sqrt(v), 2).astype(np.float32) for v in (secret, refreshed))
        self._sizes, self._refreshed = both  # of real and imaginary parts by turns
        self._numbers = self._rng.standard_normal(DRAWN + 2 * slots, dtype=np.float32)

    def onto(self, values: Numbers, deviation: float, *, refresh: bool = False) -> Numbers:
        """Adds noise of this deviation over the slots to both parts of them. refresh: as a bootstrap leaves
        it. That of a real ciphertext ends by adding the conjugate, the noise of which is all that its
        imaginary part has."""
        sizes = deviation * (self._refreshed if refresh else self._sizes)
        if refresh and np.isrealobj(values):
            sizes[1::2] = self._model.key_switch * self._sizes[1::2]
        start, noisy = int(self._rng.integers(DRAWN)), np.array(values, np.complex128)
        parts = noisy.view(np.float64)
        parts += self._numbers[start : start + len(sizes)] * sizes
        return noisy


def row_length(weights: Numbers) -> float:
    """Returns the root mean square over the outputs of a matrix of the length of their weights."""
    return float(np.sqrt(np.mean(np.sum(weights**2, axis=1))))


def series_slope(coeffs: Numbers) -> float:
    """Returns the root mean square derivative of a Chebyshev series on [-1, 1]. A stage evaluates one series
    on hundreds of ciphertexts."""
    array = np.asarray(coeffs)
    return _series_slope(array.dtype.str, array.tobytes())


@lru_cache(maxsize=256)
def _series_slope(dtype: str, coeffs: bytes) -> float:
    slope = np.polynomial.chebyshev.chebder(np.frombuffer(coeffs, dtype))
    values = np.polynomial.chebyshev.chebval(np.linspace(-1, 1, 257), slope)
    return float(np.sqrt(np.mean(np.abs(values) ** 2)))


def combined(*parts: float) -> float:
    """Returns the standard deviation of a sum of independent errors."""
    if len(parts) == 2:  # of nearly every operation
        return sqrt(parts[0] * parts[0] + parts[1] * parts[1])
    return sqrt(sum(p * p for p in parts))
