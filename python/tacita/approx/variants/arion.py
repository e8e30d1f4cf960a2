"""ARION's choice of approximations, each refitted on the calibrated interval: Chebyshev series, and steps
after some.

exp, gelu: one series. inverse: series and Goldschmidt steps. rsqrt: series and Newton steps. Degrees are the
least that reach the stated error; the paper's are fixed for all models (exp 44 or 63, inverse 255, rsqrt 31,
gelu 255, tanh 63). Its statistical maximum is in `evaluation/statistical_max.py`: no circuit takes it.
"""

from __future__ import annotations

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.activations import gelu as gelu_series
from tacita.approx.exponentials.exp import power_spec
from tacita.approx.fit import Interval
from tacita.approx.inverses import inverse_newton
from tacita.approx.inverses.rsqrt import measured_newton
from tacita.approx.spec import MARGIN, Spec, first

STARTS, STEPS = range(2, 6), range(1, 4)  # levels of the series, steps

inverse = inverse_newton.fit


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
    return poly.least_degree(
        "exp (series)",
        lambda degree: power_spec(interval, shift, degree, 0),
        interval,
        error,
        max_depth,
    )


def rsqrt(interval: Interval, error: float, *, max_depth: int = 12) -> Spec:
    """Fits 1/sqrt(x) by a series of degree 3 to 31 and one to three Newton steps, relative error <= `error`.

    Least depth, then fewest products. Errors: FitError.
    """
    domain = fitting.widen_ratio(interval, MARGIN)
    forms = sorted([(n, s) for n in STARTS for s in STEPS if n + 2 * s <= max_depth], key=_cost)
    specs = (measured_newton(interval, domain, 2**levels - 1, steps) for levels, steps in forms)
    return first("rsqrt (series, Newton)", specs, interval, error, max_depth)


def gelu(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Fits GELU by the series of least degree on the interval as it lies, absolute error <= `error`. Errors:
    FitError."""
    domain = fitting.widen(interval, MARGIN)
    return poly.least_degree(
        "gelu (series)",
        lambda degree: poly.chebyshev_spec("gelu", gelu_series.exact, interval, domain, degree),
        interval,
        error,
        max_depth,
    )


def _cost(form: tuple[int, int]) -> tuple[int, int]:
    """Returns depth and products of a series of `levels` with Newton steps."""
    levels, steps = form
    return levels + 2 * steps, 3 * steps + poly.series_multiplications(2**levels - 1)
