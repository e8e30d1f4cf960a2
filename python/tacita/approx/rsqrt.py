"""1/sqrt(x) on a positive interval, relative error: one minimax polynomial, or a short one and Newton steps.

For hi/lo = 50 a degree-31 series (5 levels, 11 products) reaches about 1e-4; a degree-7 one and one relaxed
Newton step takes the same 5 levels with fewer products and a larger error; both are offered. Epsilon of
LayerNorm belongs to x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.iterative import NewtonSpec, newton_spec
from tacita.approx.spec import MARGIN, Spec, chosen, pareto

MAX_SERIES_DEPTH = 8
MAX_DEPTH = (
    11  # 1e-3 up to hi/lo of some 20,000: BERT-base's variances reach 979, those of its quiet rows 0.2
)


def exact(x: Array) -> Array:
    """Computes 1/sqrt(x), elementwise."""
    return 1.0 / np.sqrt(np.asarray(x, dtype=np.float64))


def fit(interval: Interval, error: float, *, max_depth: int = MAX_DEPTH) -> Spec:
    """Returns the spec of least depth, then fewest products, with relative error <= `error`. Raises FitError
    when out of reach."""
    series = poly.smallest_degree(
        lambda degree: _series(interval, degree), error, min(max_depth, MAX_SERIES_DEPTH)
    )
    specs = [*_newtons(interval, max_depth), *([series] if series else [])]
    return chosen("rsqrt", specs, interval, error, max_depth)


def candidates(interval: Interval, *, max_depth: int = 9) -> tuple[Spec, ...]:
    """Lists series of depth 2..8 and Newton variants within max_depth, dominated ones left out."""
    levels = range(2, min(max_depth, MAX_SERIES_DEPTH) + 1)
    return pareto([*(_series(interval, 2**level - 1) for level in levels), *_newtons(interval, max_depth)])


def _series(interval: Interval, degree: int) -> Spec:
    domain = fitting.widen_ratio(interval, MARGIN)
    return poly.chebyshev_spec("rsqrt", exact, interval, domain, degree, np.sqrt)


def _newtons(interval: Interval, max_depth: int) -> Iterator[Spec]:
    """Starts of degree 1 (THOR's aSOR), 3, 7, 15, 31 with one to four steps."""
    domain = fitting.widen_ratio(interval, MARGIN)
    for start in range(1, 6):
        for steps in range(1, 5):
            if start + 2 * steps <= max_depth:
                yield measured_newton(interval, domain, 2**start - 1, steps)


def measured_newton(interval: Interval, domain: Interval, degree: int, steps: int) -> NewtonSpec:
    """Returns `newton_spec` with the larger of its computed and its measured error.

    On a wide domain the start is wrong by almost 1, and 0.2 % of that, its uncertainty, is much of what is
    left to 1.
    """
    spec = newton_spec(interval, domain, degree, steps)
    x = np.geomspace(*domain, 8001)
    return replace(spec, error=max(spec.error, float(np.max(np.abs(spec.numpy(x) / exact(x) - 1.0)))))
