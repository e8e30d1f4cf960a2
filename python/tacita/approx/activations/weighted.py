"""Least squares weighted by the calibrated inputs, for functions with a kink: ReLU and its square.

A minimax fit spends the same on every input, and for a kink that is a lot everywhere. What reaches the answer
is an average over features and tokens, so least squares on the inputs as they are distributed lose far less.
Of NanoGuard's first layer the inputs of ReLU squared reach from -33 to 78, and four in five lie between -5
and 3: a series of degree 63 has a root-mean-square error of 0.07 so fitted and of 0.19 fitted alike
everywhere, of results whose root mean square is 35.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import chebyshev

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec

FLOOR = 0.02  # weight of inputs that were never seen, as a share of a uniform density
GRID = 20001  # points on which errors are measured
POINTS = 12  # of the fit, per degree


@dataclass(frozen=True)
class Weighted:
    """name: of the function, in errors and specs. exact: elementwise."""

    name: str
    exact: Callable[[Array], Array]

    def fit(self, interval: Interval, goal: float, density: Sequence[float], max_depth: int) -> Spec:
        """Returns the spec of least depth, then least degree, with a root-mean-square error of at most goal,
        absolute.

        density: share of the inputs in each of equal bins of the interval. Raises FitError when out of reach.
        """
        domain, weights = fitting.widen(interval, MARGIN), np.asarray(density, dtype=np.float64)
        return poly.least_degree(
            f"{self.name}, root mean square,",
            lambda degree: self._least_squares(interval, domain, degree, weights),
            interval,
            goal,
            max_depth,
            measure=lambda spec: self._mean(spec.interval, weights, lambda x: spec.numpy(x) - self.exact(x)),
        )

    def size(self, interval: Interval, density: Sequence[float]) -> float:
        """Returns the root mean square of the function's results over inputs of this density."""
        return self._mean(interval, np.asarray(density, dtype=np.float64), self.exact)

    def _mean(self, interval: Interval, density: Array, of: Callable[[Array], Array]) -> float:
        x = np.linspace(*interval, GRID)
        weights = _weights(x, interval, density, 0.0)
        return float(np.sqrt(weights @ of(x) ** 2 / weights.sum()))

    def _least_squares(self, interval: Interval, domain: Interval, degree: int, density: Array) -> Spec:
        """Solves the normal equations, which are well conditioned: the weights lie between FLOOR and the
        largest density."""
        u = -np.cos(np.pi * np.arange(POINTS * (degree + 2) + 1) / (POINTS * (degree + 2)))
        x = fitting.from_unit(u, domain)
        # the points are dense at the ends like 1/sqrt(1 - u^2); this factor makes them even
        weights = _weights(x, interval, density, FLOOR) * np.sqrt(np.maximum(1.0 - u * u, 1e-9))
        powers = chebyshev.chebvander(u, degree)
        weighted = powers * weights[:, None]
        solution = np.linalg.solve(weighted.T @ powers, weighted.T @ self.exact(x))
        coefficients = tuple(float(c) for c in solution)
        spec = poly.ChebyshevSpec(self.name, interval, domain, 0.0, False, coefficients)
        even = np.linspace(*domain, GRID)
        return replace(spec, error=float(np.max(np.abs(spec.numpy(even) - self.exact(even)))))


def _weights(x: Array, interval: Interval, density: Array, floor: float) -> Array:
    """Returns the density at x relative to a uniform one, plus the floor; 0 outside the interval but for the
    floor."""
    lo, hi = interval
    bins = len(density)
    centres = lo + (np.arange(bins) + 0.5) * (hi - lo) / bins
    inside = np.interp(x, centres, density * bins / density.sum(), left=0.0, right=0.0)
    return np.asarray(inside + floor)
