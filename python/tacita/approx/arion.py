"""ARION's choice of approximations, each refitted on the calibrated interval: Chebyshev series, and steps
after some.

exp, gelu: one series. inverse: series and Goldschmidt steps. rsqrt: series and Newton steps. Degrees are the
least that reach the stated error; the paper's are fixed for all models (exp 44 or 63, inverse 255, rsqrt 31,
gelu 255, tanh 63). Its statistical maximum has no code: no circuit takes it (docs/papers.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import inverse as goldschmidt
from tacita.approx import poly
from tacita.approx.activations import gelu as gelu_series
from tacita.approx.exp import power_spec
from tacita.approx.fit import Array, Interval
from tacita.approx.inverse import ROUNDING
from tacita.approx.poly import ChebyshevSpec, chebyshev_spec
from tacita.approx.rsqrt import measured_newton
from tacita.approx.spec import MARGIN, Spec, first
from tacita.slots.base import Backend, Ct
from tacita.slots.counts import series_multiplications

# 1/x from a short Chebyshev series and Goldschmidt steps: ARION's inverse (Algorithm 6, step 2), refitted.
#
# With y0 = p(x) and a0 = x y0 in [1 - e, 1 + e], a <- k a (2 - a), y <- k y (2 - a) with k = 2 / (2 - e^2)
# centres the new range on 1 and squares e. Each step costs one level and two products, the first product x y0
# one level more. (ARION's code takes Newton steps instead: the same values, two levels each.) `inverse` has
# the same error in one level less.

INVERSE_STARTS, RSQRT_STARTS, STEPS = range(1, 9), range(2, 6), range(1, 4)  # levels of series, steps


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
    start = chebyshev_spec("inverse", goldschmidt.exact, interval, domain, degree, np.asarray)
    error, relaxation = start.error, []
    for _ in range(steps):
        relaxation.append(2.0 / (2.0 - error * error))
        error = error * error / (2.0 - error * error)
    return SeriesGoldschmidtSpec(
        "inverse", interval, domain, max(error, ROUNDING), True, start, tuple(map(float, relaxation))
    )


def inverse(interval: Interval, error: float, *, max_depth: int = 12) -> Spec:
    """Returns the spec of least depth, then fewest products, with relative error <= `error`. Raises FitError
    when out of reach."""
    domain = fitting.widen_ratio(interval, MARGIN)
    forms = (series_spec(interval, domain, *form) for form in _forms(INVERSE_STARTS, 1, 1, 2, max_depth))
    converging = (spec for spec in forms if spec.start.error < 1.0)  # the steps of others diverge
    return first("inverse (series)", converging, interval, error, max_depth)


def _forms(
    starts: Iterable[int], between: int, levels: int, products: int, max_depth: int
) -> list[tuple[int, int]]:
    """Lists (degree of the series, steps) of at most `max_depth` levels, ordered by depth and then by
    products. between: levels before the first step. levels, products: of a step."""
    forms = sorted(
        (n + between + levels * steps, products * steps + series_multiplications(2**n - 1), n, steps)
        for n in starts
        for steps in STEPS
    )
    return [(2**n - 1, steps) for depth, _, n, steps in forms if depth <= max_depth]


def exp(
    interval: Interval,
    error: float,
    *,
    shift: float | None = None,
    max_depth: int = 8,
    least: float | None = None,
) -> Spec:
    """Fits exp(x - shift) by the series of least degree with absolute error <= `error`. Errors: FitError.

    least: not read; of one series there is no quieter form (`exp.fit`).
    """
    make = partial(power_spec, interval, shift, squarings=0)
    return poly.least_degree("exp (series)", make, interval, error, max_depth)


def rsqrt(interval: Interval, error: float, *, max_depth: int = 12) -> Spec:
    """Fits 1/sqrt(x) by a series of degree 3 to 31 and one to three Newton steps, relative error <= `error`.

    Least depth, then fewest products. Errors: FitError.
    """
    domain = fitting.widen_ratio(interval, MARGIN)
    specs = (measured_newton(interval, domain, *form) for form in _forms(RSQRT_STARTS, 0, 2, 3, max_depth))
    return first("rsqrt (series, Newton)", specs, interval, error, max_depth)


def gelu(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Fits GELU by the series of least degree on the interval as it lies, absolute error <= `error`. Errors:
    FitError."""
    make = partial(poly.widened_spec, "gelu", gelu_series.exact, interval)
    return poly.least_degree("gelu (series)", make, interval, error, max_depth)
