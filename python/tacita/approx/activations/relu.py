"""ReLU: a least-squares polynomial weighted by the calibrated inputs, or x/2 + |x|/2 as one minimax even
polynomial.

No polynomial of degree n approximates |x| on [-1, 1] better than 0.28/n (Bernstein), so the error is about
0.14 * bound / 2^depth: 2.2e-3 * bound in 6 levels, 5.5e-4 * bound in 8. Compositions of sign polynomials
(Lee et al., ePrint 2020/834; Bossuat's iDASH solution composes degrees 127 and 63) were measured and lose
at the same depth until 12 levels; they are left out.

The largest error sits at the corner, so the fit follows the calibrated inputs (`weighted`): with a
root-mean-square error of 5.3e-5 of the half-width in 8 levels the probabilities of DASHformer move by 0.005,
with the minimax polynomial of that depth by 0.066. The domain follows the interval, which is lopsided after
most normalisations.

Polynomials P(u, Q(u)) fitted to the same weights by Gauss-Newton steps were measured and are left out: 8
levels and 15 products have the error of the series of degree 140 (26 products), a root mean square of 1.4e-4
and 0.02 in DASHformer's probabilities; with 17 to 19 products it is 1.1e-4 to 1.3e-4, and the 0.02 stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.activations.weighted import Weighted
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, half_width, pareto


def exact(x: Array) -> Array:
    """Computes max(x, 0), elementwise."""
    return np.maximum(np.asarray(x, dtype=np.float64), 0.0)


def fit(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Returns the spec of least depth, then least degree, with absolute error <= `error`. Raises FitError
    when out of reach."""
    return poly.least_degree("relu", partial(_spec, interval), interval, error, max_depth, even=True)


def fit_density(interval: Interval, share: float, density: Sequence[float], *, max_depth: int = 9) -> Spec:
    """Returns the spec of least depth, then least degree, with a root-mean-square error of at most share *
    half the domain's width.

    density: share of the inputs in each of equal bins of the interval. Raises FitError when out of reach.
    """
    goal = share * half_width(fitting.widen(interval, MARGIN))
    return Weighted("relu", exact).fit(interval, goal, density, max_depth)


def candidates(interval: Interval, *, max_depth: int = 9) -> tuple[Spec, ...]:
    """The best spec of each depth from 3 to max_depth."""
    return pareto(_spec(interval, 2 ** (levels - 1) - 1) for levels in range(3, max_depth + 1))


def _spec(interval: Interval, degree: int) -> Spec:
    bound = fitting.symmetric("relu", interval, 2.0 * MARGIN)
    return poly.even_spec("relu", lambda x: 0.5 * np.abs(x), 0.5, interval, bound, degree)
