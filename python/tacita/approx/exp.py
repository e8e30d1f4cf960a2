"""exp(x - shift) on the calibrated score interval: one series, or a short series squared k times.

shift defaults to the upper end, so values lie in (0, 1] and can be bootstrapped; softmax does not change.
The error is absolute, i.e. relative to the largest exponential. (series(x / 2^k))^(2^k) is never negative,
whatever the error, and takes fewer products (THOR section 5.1 uses it with delta_1 = 2^k; MOAI's (1 +
x/128)^128 is its degree-1 case).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec, cheapest, map_levels, normalise
from tacita.slots.base import Backend, Ct
from tacita.slots.counts import series_depth, series_multiplications

SQUARINGS = (0, 1, 2, 3, 4)
FLOOR = 2.0**-30  # that a product of ciphertexts may add to every slot: n16 adds 2^-34 (`slots.noise`)
QUIET = 0.01  # of the least mean: noise of an exponential that no row notices


@dataclass(frozen=True)
class PowerSpec(Spec):
    """(sum_k coefficients[k] T_k(u))^(2^squarings), approximating exp(x - shift). Depth of the series +
    squarings.
    """

    kind = "power"
    shift: float
    squarings: int
    coefficients: tuple[float, ...]

    def depth(self, input_scale: float = 1.0) -> int:
        series = series_depth(len(self.coefficients) - 1)
        return series + self.squarings + map_levels(self.domain, input_scale)

    def multiplications(self) -> int:
        return series_multiplications(len(self.coefficients) - 1) + self.squarings

    def numpy(self, x: Array) -> Array:
        base = fitting.evaluate_series(np.array(self.coefficients), fitting.to_unit(x, self.domain))
        return np.asarray(base ** (2**self.squarings), dtype=np.float64)

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        u = normalise(be, ct, self.domain, input_scale)
        root = output_scale ** (0.5**self.squarings)
        result = be.poly(u, np.array(self.coefficients) * root)
        for _ in range(self.squarings):
            result = be.square(result)
        return result


def exact(x: Array, shift: float = 0.0) -> Array:
    """Computes exp(x - shift), elementwise."""
    return np.asarray(np.exp(np.asarray(x, dtype=np.float64) - shift), dtype=np.float64)


def fit(
    interval: Interval,
    error: float,
    *,
    shift: float | None = None,
    max_depth: int = 10,
    least: float | None = None,
) -> Spec:
    """Returns the spec of least depth, then fewest products, with |p - exp(x - shift)| <= error. Raises
    FitError when out of reach.

    least: mean of exponentials of a row, at the least. Where a series would be as noisy as that, it is
    squared: noise of a root r is multiplied by 2 r.
    """
    forms = [
        poly.smallest_degree(partial(power_spec, interval, shift, squarings=k), error, min(7, max_depth - k))
        for k in SQUARINGS
        if k < max_depth
    ]
    enough = [form for form in forms if form.error <= error]
    return cheapest("exp", _quiet(enough, least) if least and enough else forms, interval, error, max_depth)


def noise(spec: PowerSpec, value: float) -> float:
    """Estimates the standard deviation of what ciphertexts give where exp is `value`: of the series, whose
    large coefficients take theirs along, through the squarings, and of the last of these."""
    top = 1.0 + max(map(abs, spec.coefficients))
    series = FLOOR * top * math.sqrt(1 + series_multiplications(len(spec.coefficients) - 1))
    if not spec.squarings:
        return series
    power = 2.0**spec.squarings
    return math.hypot(power * value ** (1.0 - 1.0 / power) * series, FLOOR)


def _quiet(specs: Sequence[PowerSpec], least: float) -> list[PowerSpec]:
    """Selects the specs whose noise is small beside the least mean, or at most 1.5 times FLOOR; all of them
    where none is."""
    bound = max(QUIET * least, 1.5 * FLOOR)
    return [spec for spec in specs if noise(spec, least) <= bound] or list(specs)


def power_spec(interval: Interval, shift: float | None, degree: int, squarings: int) -> PowerSpec:
    """A series of `degree`, squared k = `squarings` times. Weighted Remez on the root: an error d of it makes
    2^k root^(2^k - 1) d of the power.
    """
    domain = fitting.widen(interval, MARGIN)
    moved = interval[1] if shift is None else shift
    power = 2.0**squarings

    def weight(x: Array) -> Array:
        slope = power * np.exp((x - moved) * (1.0 - 1.0 / power))  # of the power
        return np.asarray(np.maximum(slope, 1e-3 * power))  # the root stays a fair fit where exp is tiny

    root = fitting.remez(lambda x: np.exp((x - moved) / power), domain, degree, weight)
    u = np.linspace(-1.0, 1.0, 4001)
    x = fitting.from_unit(u, domain)
    error = float(np.max(np.abs(fitting.evaluate_series(root.coefficients, u) ** power - exact(x, moved))))
    return PowerSpec("exp", interval, domain, error, False, moved, squarings, root.floats)
