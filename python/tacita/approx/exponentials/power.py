"""((x + offset) / top)^power, in place of exp: Powerformer's BPmax, softmax_j ~ (x_j + c)^p / R_d with a
stored R_d.

Its models are retrained with it (p = c = 5 in their code), so this is not an approximation: the polynomial of
degree p is exact, in ceil(log2(p + 1)) levels. top = max |x + offset| on the domain keeps the value in [-1,
1]; it belongs into 1/R_d.
"""

from __future__ import annotations

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, FitError, Interval
from tacita.approx.poly import ChebyshevSpec
from tacita.approx.spec import MARGIN

MOST = 15  # largest power


def exact(x: Array, offset: float, power: int) -> Array:
    """Computes (x + offset)^power, elementwise."""
    return np.asarray((np.asarray(x, dtype=np.float64) + offset) ** power, dtype=np.float64)


def top(interval: Interval, offset: float) -> float:
    """Returns max |x + offset| over the domain of `fit`."""
    lo, hi = fitting.widen(interval, MARGIN)
    return max(abs(lo + offset), abs(hi + offset))


def fit(interval: Interval, offset: float, power: int) -> ChebyshevSpec:
    """The polynomial on the interval, widened by the margin. Errors: FitError (power, interval)."""
    if not 1 <= power <= MOST:
        raise FitError(f"power fit: power {power}", hint=f"it must be from 1 to {MOST}")
    domain, scale = fitting.widen(interval, MARGIN), top(interval, offset)
    series = fitting.interpolate(lambda x: exact(x / scale, offset / scale, power), domain, power)
    return ChebyshevSpec("power", interval, domain, series.error, False, series.floats)
