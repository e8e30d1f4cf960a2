"""Activations computed by the bootstrap of their argument, right on a range that no calibration has to show:
LEAF's way.

The inputs of a real BERT-base's GELUs reach [-61, 108] (the activations of the ARION checkpoint); a text on
which a model was calibrated may show [-8, 8] of them. So the domain is WIDE whatever the calibration says,
and wider where it says so. On WIDE 2e-3 takes 126 harmonics of GELU and of its form with tanh and 97 of
SiLU: seven levels of the thirteen, and one more for each doubling of the range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tacita.approx import fit as fitting
from tacita.approx import fourier
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import Spec

WIDE = (-64.0, 128.0)
SPARE = 0.1  # of a calibrated interval on each side: it fills 1 / 1.2 of the domain at most
OUTSIDE = 64.0  # times the largest |f|, beyond the domain: the answer of such an input fails its checks


@dataclass(frozen=True)
class Refreshed:
    """name: of the function, in errors and specs. exact: elementwise."""

    name: str
    exact: Callable[[Array], Array]

    def fit(self, interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
        """Returns the spec of fewest harmonics with absolute error <= `error` on the whole domain. Raises
        FitError when max_depth levels do not suffice."""
        low, high = fitting.widen(interval, SPARE)
        domain = min(low, WIDE[0]), max(high, WIDE[1])
        return _fit(self, interval, domain, error, max_depth)


@lru_cache(maxsize=64)
def _fit(of: Refreshed, interval: Interval, domain: Interval, error: float, max_depth: int) -> Spec:
    return fourier.fit(of.name, of.exact, interval, domain, error, max_depth=max_depth, outside=OUTSIDE)
