"""1/x on a positive interval, relative error: Goldschmidt with adaptive relaxation.

It equals the minimax polynomial of the same depth (see `iterative`) and needs the fewest products, so there
is one candidate per depth: depth T has relative error 1 / cosh(2^T acosh((hi+lo)/(hi-lo))), e.g. 1e-3 at T
= 7 for hi/lo = 1000.
"""

from __future__ import annotations

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, Interval
from tacita.approx.iterative import goldschmidt_spec
from tacita.approx.spec import MARGIN, Spec, chosen, pareto


def exact(x: Array) -> Array:
    """Computes 1/x, elementwise."""
    return 1.0 / np.asarray(x, dtype=np.float64)


def fit(interval: Interval, error: float, *, max_depth: int = 16) -> Spec:
    """Returns the spec of fewest iterations with relative error <= `error`. Raises FitError when max_depth is
    too small."""
    return chosen("inverse", candidates(interval, max_depth=max_depth), interval, error, max_depth)


def candidates(interval: Interval, *, max_depth: int = 12) -> tuple[Spec, ...]:
    """Lists one spec per depth 2..max_depth; depths that add nothing in float64 are left out."""
    domain = fitting.widen_ratio(interval, MARGIN)
    return pareto(goldschmidt_spec(interval, domain, levels) for levels in range(2, max_depth + 1))
