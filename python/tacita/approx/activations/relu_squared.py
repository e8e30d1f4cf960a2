"""ReLU squared, max(x, 0)^2, of Primer's models: smooth once, so that a plain series converges with
1/degree^2 where ReLU's own does with 1/degree.

Its inputs lie close together with a few far out, whose squares are the scale of an error that is the same
everywhere: fitted so, four layers of NanoGuard moved logits by 0.24 of 13. The fit follows the calibrated
inputs (`weighted`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.activations.weighted import Weighted
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, chosen, pareto

NAME = "relu2"


def exact(x: Array) -> Array:
    """Computes max(x, 0)^2, elementwise."""
    return np.asarray(np.maximum(x, 0.0) ** 2)


def fit(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Returns the spec of least degree with absolute error <= `error`. Raises FitError when max_depth is too
    small."""
    series = poly.smallest_degree(lambda degree: _series(interval, degree), error, max_depth)
    specs = [series] if series else []
    return chosen(NAME, specs, interval, error, max_depth, lambda: candidates(interval, max_depth=max_depth))


def fit_density(interval: Interval, share: float, density: Sequence[float], *, max_depth: int = 9) -> Spec:
    """Returns the spec of least depth, then least degree, with a root-mean-square error of at most share
    times the root mean square of the results.

    density: share of the inputs in each of equal bins of the interval. Raises FitError when out of reach.
    """
    weighted = Weighted(NAME, exact)
    return weighted.fit(interval, share * weighted.size(interval, density), density, max_depth)


def candidates(interval: Interval, *, max_depth: int = 8) -> tuple[Spec, ...]:
    """The best series of each depth from 3 to max_depth."""
    return pareto([_series(interval, 2**levels - 1) for levels in range(3, max_depth + 1)])


def _series(interval: Interval, degree: int) -> Spec:
    fitting.check_interval(NAME, interval)
    return poly.chebyshev_spec(NAME, exact, interval, fitting.widen(interval, MARGIN), degree)
