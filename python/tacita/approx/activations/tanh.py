"""tanh for the pooler, one ciphertext an inference: a single minimax polynomial, absolute error.

Its poles at +-i pi/2 make the error fall by exp(-pi degree / (2 bound)): degree 63 gives 1e-4 and degree
127 gives 1e-8 on [-10, 10]. THOR's composition of two degree-15 polynomials (appendix C, with a misprinted
coefficient) has 8 levels; degree 127 has 7.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, pareto


def exact(x: Array) -> Array:
    """Computes tanh(x), elementwise."""
    return np.tanh(np.asarray(x, dtype=np.float64))


def fit(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Returns the spec of least depth, then least degree, with absolute error <= `error`. Raises FitError
    when out of reach."""
    return poly.least_degree("tanh", partial(_spec, interval), interval, error, max_depth)


def candidates(interval: Interval, *, max_depth: int = 8) -> tuple[Spec, ...]:
    """The best spec of each depth from 2 to max_depth."""
    return pareto(_spec(interval, 2**levels - 1) for levels in range(2, max_depth + 1))


def _spec(interval: Interval, degree: int) -> Spec:
    """Fits on a symmetric domain, so that storing x / bound makes the affine map free."""
    bound = fitting.symmetric("tanh", interval, 2.0 * MARGIN)
    return poly.chebyshev_spec("tanh", exact, interval, (-bound, bound), degree)
