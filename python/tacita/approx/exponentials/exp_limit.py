"""exp(x - shift) as (1 + (x - shift) / 2^r)^(2^r): MOAI's exponential (Algorithm 9), also NEXUS' and
Tricycle's.

r squarings and one linear step, so r + 1 levels and r products. The value is exp(z - z^2 / 2^(r+1) + ...)
with z = x - shift: the absolute error is about 0.27 / 2^r, at z = -2, but the *relative* one grows with z^2,
and it is by relative errors that softmax changes. One more r halves both. `fit` replaces the 1 by the best
line for the interval (least absolute error).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.exponentials import exp
from tacita.approx.exponentials.exp import PowerSpec, exact
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, first, half_width, pareto

FIRST, LAST = 1, 14  # squarings tried


def limit(interval: Interval, squarings: int, *, shift: float | None = None) -> PowerSpec:
    """The paper's constants: (1 + (x - shift) / 2^squarings)^(2^squarings), with its measured error."""
    domain = fitting.widen(interval, MARGIN)
    moved, power = interval[1] if shift is None else shift, 2.0**squarings
    line = (1.0 + (0.5 * (domain[0] + domain[1]) - moved) / power, half_width(domain) / power)
    spec = PowerSpec("exp", interval, domain, 0.0, False, moved, squarings, line)
    return PowerSpec("exp", interval, domain, _measure(spec), False, moved, squarings, line)


def fit(interval: Interval, error: float, *, shift: float | None = None, max_depth: int = LAST + 1) -> Spec:
    """Returns the spec of fewest squarings with absolute error <= `error`, the line refitted. Raises FitError
    when out of reach."""
    return first("exp (limit)", _all(interval, shift, max_depth), interval, error, max_depth)


def candidates(interval: Interval, *, shift: float | None = None, max_depth: int = 12) -> tuple[Spec, ...]:
    """Lists one spec per number of squarings within max_depth levels."""
    return pareto(_all(interval, shift, max_depth))


def _all(interval: Interval, shift: float | None, max_depth: int) -> Iterator[Spec]:
    return (_refit(interval, shift, squarings) for squarings in range(FIRST, max_depth))


def _refit(interval: Interval, shift: float | None, squarings: int) -> Spec:
    """The better of the paper's line and the one of least error."""
    both = (exp.power_spec(interval, shift, 1, squarings), limit(interval, squarings, shift=shift))
    return min(both, key=lambda spec: spec.error)


def _measure(spec: PowerSpec) -> float:
    x: Array = np.linspace(*spec.domain, 4001)
    return float(np.max(np.abs(spec.numpy(x) - exact(x, spec.shift))))
