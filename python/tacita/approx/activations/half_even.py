"""Activations f for which f(x) - x/2 is even: GELU in both its forms, SiLU. All x s(x) with s(x) + s(-x) = 1.

The even rest is fitted on a symmetric calibrated interval, in powers of T_2, so that half of the coefficients
are there: for GELU one minimax polynomial (degree 30 or 62 in x) reaches 1e-3 and better in 5 or 6 levels on
the intervals that occur. The error is absolute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, chosen, pareto


@dataclass(frozen=True)
class HalfEven:
    """A function that is x/2 plus an even one, with its fits. name: of the function, in errors and specs.
    exact: elementwise."""

    name: str
    exact: Callable[[Array], Array]

    def fit(self, interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
        """Returns the spec of least depth, then fewest products, with absolute error <= `error`. Raises
        FitError when max_depth is too small."""
        even = poly.smallest_degree(lambda n: self._even(interval, n), error, max_depth, even=True)
        plain = (
            poly.smallest_degree(lambda n: self._plain(interval, n), error, max_depth)
            if self._lopsided(interval)
            else None
        )
        specs = [s for s in (even, plain) if s is not None]
        others = lambda: self.candidates(interval, max_depth=max_depth)  # noqa: E731
        return chosen(self.name, specs, interval, error, max_depth, others)

    def candidates(self, interval: Interval, *, max_depth: int = 8) -> tuple[Spec, ...]:
        """The best even fit of each depth from 3 to max_depth, and plain series where the interval is
        lopsided."""
        depths = range(3, max_depth + 1)
        even = [self._even(interval, 2 ** (levels - 1) - 1) for levels in depths]
        plain = (
            [self._plain(interval, 2**levels - 1) for levels in depths] if self._lopsided(interval) else []
        )
        return pareto([*even, *plain])

    def _even(self, interval: Interval, degree: int) -> Spec:
        """Symmetric domain, max |x| plus the margin on each side; `degree` counts powers of T_2."""
        bound = fitting.symmetric(self.name, interval, 2.0 * MARGIN)
        return poly.even_spec(self.name, lambda x: self.exact(x) - 0.5 * x, 0.5, interval, bound, degree)

    def _plain(self, interval: Interval, degree: int) -> Spec:
        domain = fitting.widen(interval, MARGIN)
        return poly.chebyshev_spec(self.name, self.exact, interval, domain, degree)

    def _lopsided(self, interval: Interval) -> bool:
        """Whether a symmetric domain would be more than a tenth wider than the interval."""
        fitting.check_interval(self.name, interval)
        lo, hi = interval
        return 2.0 * max(abs(lo), abs(hi)) > 1.1 * (hi - lo)
