"""ReLU: a least-squares polynomial weighted by the calibrated inputs, or x/2 + |x|/2 as one minimax even
polynomial.

No polynomial of degree n approximates |x| on [-1, 1] better than 0.28/n (Bernstein), so the error is about
0.14 * bound / 2^depth: 2.2e-3 * bound in 6 levels, 5.5e-4 * bound in 8. Compositions of sign polynomials
(Lee et al., ePrint 2020/834; Bossuat's iDASH solution composes degrees 127 and 63) were measured and lose
at the same depth until 12 levels; they are left out.

The largest error sits at the corner, and a minimax fit spends the same everywhere else. What reaches the
answer is an average over features and tokens, so least squares on the inputs as they are distributed
(`fit_density`) loses far less: with a root-mean-square error of 5.3e-5 of the half-width in 8 levels the
probabilities of DASHformer move by 0.005, with the minimax polynomial of that depth by 0.066. The domain
follows the interval, which is lopsided after most normalisations.

Polynomials P(u, Q(u)) fitted to the same weights by Gauss-Newton steps were measured and are left out: 8
levels and 15 products have the error of the series of degree 140 (26 products), a root mean square of 1.4e-4
and 0.02 in DASHformer's probabilities; with 17 to 19 products it is 1.1e-4 to 1.3e-4, and the 0.02 stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.polynomial import chebyshev

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, half_width, pareto

FLOOR = 0.02  # weight of inputs that were never seen, as a share of a uniform density
GRID = 20001  # points on which errors are measured
POINTS = 12  # of the fit, per degree


def exact(x: Array) -> Array:
    """max(x, 0), elementwise."""
    return np.maximum(np.asarray(x, dtype=np.float64), 0.0)


def fit(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Least depth, then least degree, with absolute error <= `error`. Raises FitError when out of reach."""
    return poly.least_degree("relu", partial(_spec, interval), interval, error, max_depth, even=True)


def fit_density(interval: Interval, share: float, density: Sequence[float], *, max_depth: int = 9) -> Spec:
    """Least depth, then least degree, with a root-mean-square error of at most share * half the domain's
    width.

    density: share of the inputs in each of equal bins of the interval. Raises FitError when out of reach.
    """
    domain = fitting.widen(interval, MARGIN)
    weights, goal = np.asarray(density, dtype=np.float64), share * half_width(domain)
    return poly.least_degree(
        "relu, root mean square,",
        lambda degree: _least_squares(interval, domain, degree, weights),
        interval,
        goal,
        max_depth,
        measure=lambda spec: rms(spec, weights),
    )


def rms(spec: Spec, density: Array) -> float:
    """Root-mean-square error over inputs of this density on the spec's interval."""
    x = np.linspace(*spec.interval, GRID)
    weights = _weights(x, spec.interval, density, 0.0)
    return float(np.sqrt(weights @ (spec.numpy(x) - exact(x)) ** 2 / weights.sum()))


def candidates(interval: Interval, *, max_depth: int = 9) -> tuple[Spec, ...]:
    """The best spec of each depth from 3 to max_depth."""
    return pareto(_spec(interval, 2 ** (levels - 1) - 1) for levels in range(3, max_depth + 1))


def _least_squares(interval: Interval, domain: Interval, degree: int, density: Array) -> Spec:
    """By the normal equations, which are well conditioned: the weights lie between FLOOR and the largest
    density."""
    u = -np.cos(np.pi * np.arange(POINTS * (degree + 2) + 1) / (POINTS * (degree + 2)))
    x = fitting.from_unit(u, domain)
    # the points are dense at the ends like 1/sqrt(1 - u^2); this factor makes them even
    weights = _weights(x, interval, density, FLOOR) * np.sqrt(np.maximum(1.0 - u * u, 1e-9))
    powers = chebyshev.chebvander(u, degree)
    weighted = powers * weights[:, None]
    found = np.linalg.solve(weighted.T @ powers, weighted.T @ exact(x))
    spec = poly.ChebyshevSpec("relu", interval, domain, 0.0, False, tuple(float(c) for c in found))
    even = np.linspace(*domain, GRID)
    return replace(spec, error=float(np.max(np.abs(spec.numpy(even) - exact(even)))))


def _weights(x: Array, interval: Interval, density: Array, floor: float) -> Array:
    """Density at x relative to a uniform one, plus the floor; 0 outside the interval but for the floor."""
    lo, hi = interval
    bins = len(density)
    centres = lo + (np.arange(bins) + 0.5) * (hi - lo) / bins
    inside = np.interp(x, centres, density * bins / density.sum(), left=0.0, right=0.0)
    return np.asarray(inside + floor)


def _spec(interval: Interval, degree: int) -> Spec:
    bound = fitting.symmetric("relu", interval, 2.0 * MARGIN)
    return poly.even_spec("relu", lambda x: 0.5 * np.abs(x), 0.5, interval, bound, degree)
