"""A minimal float64 stand-in for a Backend: just enough operations to evaluate approximations and count levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev


@dataclass(frozen=True)
class Slots:
    values: np.ndarray
    level: int


class SlotBackend:
    def __init__(self) -> None:
        self.products = 0

    def add(self, a: Slots, b: Slots) -> Slots:
        return Slots(a.values + b.values, min(a.level, b.level))

    def neg(self, a: Slots) -> Slots:
        return Slots(-a.values, a.level)

    def add_const(self, a: Slots, c: float) -> Slots:
        return Slots(a.values + c, a.level)

    def mul(self, a: Slots, b: Slots) -> Slots:
        self.products += 1
        return Slots(a.values * b.values, min(a.level, b.level) - 1)

    def square(self, a: Slots) -> Slots:
        return self.mul(a, a)

    def mul_const(self, a: Slots, c: float) -> Slots:
        return Slots(a.values * c, a.level - 1)

    def mul_int(self, a: Slots, k: int) -> Slots:
        assert isinstance(k, int)
        assert 1 <= abs(k) <= 1 << 20
        return Slots(a.values * k, a.level)

    def poly(self, a: Slots, coefficients: np.ndarray) -> Slots:
        degree = len(coefficients) - 1
        assert degree >= 1
        assert np.abs(a.values).max() <= 1.0 + 1e-9, "poly is defined on [-1, 1]"
        return Slots(chebyshev.chebval(a.values, coefficients), a.level - degree.bit_length())
