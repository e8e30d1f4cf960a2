"""GELU, x Phi(x) with the exact erf: x/2 plus an even function, fitted on a symmetric calibrated interval.

One minimax polynomial (degree 30 or 62 in x) reaches 1e-3 and better in 5 or 6 levels on the intervals that
occur; THOR's composition of degrees 31 and 27 (appendix C) takes 11. The error is absolute.
"""

from __future__ import annotations

import math

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, chosen, pareto


def exact(x: Array) -> Array:
    """x Phi(x), elementwise."""
    x = np.asarray(x, dtype=np.float64)
    flat = (x / math.sqrt(2.0)).ravel().tolist()
    erf = np.fromiter(map(math.erf, flat), np.float64, len(flat))  # twice as quick as np.vectorize
    return np.asarray(0.5 * x * (1.0 + erf.reshape(x.shape)))


def fit(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Least depth, then fewest products, with absolute error <= `error`. Raises FitError when max_depth is
    too small.
    """
    even = poly.smallest_degree(lambda degree: _even(interval, degree), error, max_depth, even=True)
    plain = (
        poly.smallest_degree(lambda degree: _plain(interval, degree), error, max_depth)
        if _lopsided(interval)
        else None
    )
    specs = [s for s in (even, plain) if s is not None]
    return chosen(
        "gelu", specs, interval, error, max_depth, lambda: candidates(interval, max_depth=max_depth)
    )


def candidates(interval: Interval, *, max_depth: int = 8) -> tuple[Spec, ...]:
    """The best even fit of each depth from 3 to max_depth, and plain series where the interval is
    lopsided."""
    even = [_even(interval, 2 ** (levels - 1) - 1) for levels in range(3, max_depth + 1)]
    plain = (
        [_plain(interval, 2**levels - 1) for levels in range(3, max_depth + 1)] if _lopsided(interval) else []
    )
    return pareto([*even, *plain])


def _even(interval: Interval, degree: int) -> Spec:
    """Symmetric domain, max |x| plus the margin on each side; `degree` counts powers of T_2."""
    bound = fitting.symmetric("gelu", interval, 2.0 * MARGIN)
    return poly.even_spec("gelu", lambda x: exact(x) - 0.5 * x, 0.5, interval, bound, degree)


def _plain(interval: Interval, degree: int) -> Spec:
    return poly.chebyshev_spec("gelu", exact, interval, fitting.widen(interval, MARGIN), degree)


def _lopsided(interval: Interval) -> bool:
    """Whether a symmetric domain would be more than a tenth wider than the interval."""
    fitting.check_interval("gelu", interval)
    lo, hi = interval
    return 2.0 * max(abs(lo), abs(hi)) > 1.1 * (hi - lo)
