"""1/sqrt(x) on a positive interval, relative error: one minimax polynomial, or a short one and Newton steps.

For hi/lo = 50 a degree-31 series (5 levels, 11 products) reaches about 1e-4; a degree-7 one and one relaxed
Newton step takes the same 5 levels with fewer products and a larger error; both are tried. Epsilon of
LayerNorm belongs to x.

A step is y <- y (alpha - beta x y^2), (alpha, beta) equioscillating on the current range of sqrt(x) y: two
levels and three products. With a degree-1 start this is THOR's coupled iteration (a = x b^2; section 5.1 and
appendix C) in self-correcting form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.inverse import ROUNDING
from tacita.approx.poly import ChebyshevSpec, chebyshev_spec
from tacita.approx.spec import MARGIN, Spec, cheapest, free_depth
from tacita.slots.base import Backend, Ct

MAX_SERIES_DEPTH = 8
# 1e-3 up to hi/lo of some 20,000: BERT-base's variances reach 979, those of its quiet rows 0.2
MAX_DEPTH = 11


def exact(x: Array) -> Array:
    """Computes 1/sqrt(x), elementwise."""
    return 1.0 / np.sqrt(np.asarray(x, dtype=np.float64))


def fit(interval: Interval, error: float, *, max_depth: int = MAX_DEPTH) -> Spec:
    """Returns the spec of least depth, then fewest products, with relative error <= `error`. Raises FitError
    when out of reach."""
    domain = fitting.widen_ratio(interval, MARGIN)
    forms = [(n, steps) for n in range(1, 6) for steps in range(1, 5) if n + 2 * steps <= max_depth]
    newtons = [measured_newton(interval, domain, 2**n - 1, steps) for n, steps in forms]  # 1: THOR's aSOR
    depths = [free_depth(spec) for spec in newtons if spec.error <= error]  # a deeper series is not chosen
    make = partial(_series, interval, domain)
    series = poly.smallest_degree(make, error, min([max_depth, MAX_SERIES_DEPTH, *depths]))
    return cheapest("rsqrt", [*newtons, series], interval, error, max_depth)


@lru_cache(maxsize=32)  # forms with other numbers of steps have the same start
def _series(interval: Interval, domain: Interval, degree: int) -> ChebyshevSpec:
    return chebyshev_spec("rsqrt", exact, interval, domain, degree, np.sqrt)


def measured_newton(interval: Interval, domain: Interval, degree: int, steps: int) -> NewtonSpec:
    """Returns `newton_spec` with the larger of its computed and its measured error.

    On a wide domain the start is wrong by almost 1, and 0.2 % of that, its uncertainty, is much of what is
    left to 1.
    """
    spec = newton_spec(interval, domain, degree, steps)
    x = np.geomspace(*domain, 8001)
    return replace(spec, error=max(spec.error, float(np.max(np.abs(spec.numpy(x) / exact(x) - 1.0)))))


@dataclass(frozen=True)
class NewtonSpec(Spec):
    """1/sqrt(x): starting series, then one (alpha, beta) per step. Depth of the start plus 2 a step."""

    kind = "newton"
    start: ChebyshevSpec
    steps: tuple[tuple[float, float], ...]

    def depth(self, input_scale: float = 1.0) -> int:
        return self.start.depth(input_scale) + 2 * len(self.steps)

    def multiplications(self) -> int:
        return self.start.multiplications() + 3 * len(self.steps)

    def numpy(self, x: Array) -> Array:
        y = self.start.numpy(x)
        for alpha, beta in self.steps:
            y = y * (alpha - beta * x * y * y)
        return y

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        y = self.start.evaluate(be, ct, input_scale, output_scale if not self.steps else 1.0)
        for i, (alpha, beta) in enumerate(self.steps):
            out = output_scale if i == len(self.steps) - 1 else 1.0
            # x is still at its entry level, so scaling it by -beta uses no level on the critical path
            cubic = be.mul(be.mul(y, be.mul_const(ct, -beta * out / input_scale)), be.square(y))
            y = be.add(cubic, be.mul_const(y, alpha * out))
        return y


def newton_spec(interval: Interval, domain: Interval, degree: int, steps: int) -> NewtonSpec:
    """Fits a minimax start of `degree`, then `steps` relaxed Newton steps; relative error exact up to the
    start's."""
    start = _series(interval, domain, degree)
    error, pairs = start.error, []
    for _ in range(steps):
        alpha, beta, error = _relax(error)
        pairs.append((alpha, beta))
    return NewtonSpec("rsqrt", interval, domain, max(error, ROUNDING), True, start, tuple(pairs))


def _relax(error: float) -> tuple[float, float, float]:
    """Returns (alpha, beta, new error) with z (alpha - beta z^2) equioscillating about 1 for z in [1 - error,
    1 + error].

    z rho - z^3 takes the same value at both ends for rho = lo^2 + lo hi + hi^2 and peaks at sqrt(rho / 3).
    """
    lo, hi = 1.0 - error, 1.0 + error
    rho = lo * lo + lo * hi + hi * hi
    peak, end = 2.0 * (rho / 3.0) ** 1.5, lo * rho - lo**3
    return 2.0 * rho / (peak + end), 2.0 / (peak + end), (peak - end) / (peak + end)
