"""ReLU, x/2 + |x|/2, as one minimax even polynomial; absolute error.

No polynomial of degree n approximates |x| on [-1, 1] better than 0.28/n (Bernstein), so the error is about
0.14 * bound / 2^depth: 2.2e-3 * bound in 6 levels, 5.5e-4 * bound in 8. Compositions of sign polynomials
(Lee et al., ePrint 2020/834; Bossuat's iDASH solution composes degrees 127 and 63) were measured and lose
at the same depth until 12 levels; they are left out.
"""

from __future__ import annotations

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, depth, evaluate, numpy, pareto, unreachable

__all__ = ["candidates", "depth", "evaluate", "exact", "fit", "numpy"]


def exact(x: Array) -> Array:
    """max(x, 0), elementwise."""
    return np.maximum(np.asarray(x, dtype=np.float64), 0.0)


def fit(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Least depth, then least degree, with absolute error <= `error`. Raises FitError when out of reach."""
    spec = poly.smallest_degree(lambda degree: _spec(interval, degree), error, max_depth, even=True)
    if spec is None:
        best = _spec(interval, 2 ** (max_depth - 1) - 1).error
        raise unreachable("relu", interval, error, best, max_depth)
    return spec


def candidates(interval: Interval, *, max_depth: int = 9) -> tuple[Spec, ...]:
    """The best spec of each depth from 3 to max_depth."""
    return pareto(_spec(interval, 2 ** (levels - 1) - 1) for levels in range(3, max_depth + 1))


def _spec(interval: Interval, degree: int) -> Spec:
    fitting.check_interval("relu", interval)
    bound = max(abs(interval[0]), abs(interval[1])) * (1.0 + 2.0 * MARGIN)
    return poly.even_spec("relu", lambda x: 0.5 * np.abs(x), 0.5, interval, bound, degree)
