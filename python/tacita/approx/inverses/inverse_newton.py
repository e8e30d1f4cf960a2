"""1/x from a short Chebyshev series and Goldschmidt steps: ARION's inverse (Algorithm 6, step 2), refitted.

With y0 = p(x) and a0 = x y0 in [1 - e, 1 + e], a <- k a (2 - a), y <- k y (2 - a) with k = 2 / (2 - e^2)
centres the new range on 1 and squares e. Each step costs one level and two products, the first product x y0
one level more. (ARION's code takes Newton steps instead: the same values, two levels each.) A minimax series
of degree 2^T - 1 has the same error as T levels of `inverse`, so this form takes one level more than that and
pays more products; it is here to be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, Interval
from tacita.approx.inverses.inverse import exact
from tacita.approx.iterative import ROUNDING
from tacita.approx.poly import ChebyshevSpec, chebyshev_spec, series_multiplications
from tacita.approx.spec import MARGIN, Spec, first, pareto

if TYPE_CHECKING:
    from tacita.slots.base import Backend, Ct

STARTS, STEPS = range(1, 9), range(1, 4)  # levels of the series, steps


@dataclass(frozen=True)
class SeriesGoldschmidtSpec(Spec):
    """1/x: series, then one relaxation k per step. Depth: the series', 1, and 1 a step; products: 2 a
    step."""

    kind = "series_goldschmidt"
    start: ChebyshevSpec
    relaxation: tuple[float, ...]

    def depth(self, input_scale: float = 1.0) -> int:
        return self.start.depth(input_scale) + 1 + len(self.relaxation)

    def multiplications(self) -> int:
        return self.start.multiplications() + 2 * len(self.relaxation)

    def numpy(self, x: Array) -> Array:
        y = self.start.numpy(x)
        a = np.asarray(x, dtype=np.float64) * y
        for k in self.relaxation:
            a, y = k * a * (2.0 - a), k * y * (2.0 - a)
        return y

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        """The factors k are carried in a running constant, a = c * alpha: a (2 - a) = c^2 alpha (2/c -
        alpha)."""
        c, first = 1.0, output_scale
        for k in self.relaxation:
            first, c = first * k * c, k * c * c
        y = self.start.evaluate(be, ct, input_scale, first)
        # x is at its entry level, far above y: undoing the scales on x takes no level that counts
        alpha, c = be.mul(y, be.mul_const(ct, 1.0 / (input_scale * first))), 1.0
        for i, k in enumerate(self.relaxation):
            rest = be.add_const(be.neg(alpha), 2.0 / c)
            y = be.mul(y, rest)
            alpha = be.mul(alpha, rest) if i + 1 < len(self.relaxation) else alpha
            c = k * c * c
        return y


def series_spec(interval: Interval, domain: Interval, degree: int, steps: int) -> SeriesGoldschmidtSpec:
    """Fits a minimax start of `degree` (relative error e), then `steps`; the error is exact up to the
    start's."""
    start = chebyshev_spec("inverse", exact, interval, domain, degree, np.asarray)
    error, relaxation = start.error, []
    for _ in range(steps):
        relaxation.append(2.0 / (2.0 - error * error))
        error = error * error / (2.0 - error * error)
    return SeriesGoldschmidtSpec(
        "inverse", interval, domain, max(error, ROUNDING), True, start, tuple(map(float, relaxation))
    )


def fit(interval: Interval, error: float, *, max_depth: int = 12) -> Spec:
    """Returns the spec of least depth, then fewest products, with relative error <= `error`. Raises FitError
    when out of reach."""
    return first("inverse (series)", _all(interval, max_depth), interval, error, max_depth)


def candidates(interval: Interval, *, max_depth: int = 10) -> tuple[Spec, ...]:
    """Lists series of full levels with one to three steps, dominated ones left out."""
    return pareto(_all(interval, max_depth))


def _all(interval: Interval, max_depth: int) -> Iterator[Spec]:
    """Yields the specs of at most `max_depth` levels, ordered by depth and then by products."""
    domain = fitting.widen_ratio(interval, MARGIN)
    forms = [(start, steps) for start in STARTS for steps in STEPS if start + 1 + steps <= max_depth]
    for start, steps in sorted(
        forms, key=lambda f: (sum(f), 2 * f[1] + series_multiplications(2 ** f[0] - 1))
    ):
        spec = series_spec(interval, domain, 2**start - 1, steps)
        if spec.start.error < 1.0:  # else the steps diverge
            yield spec
