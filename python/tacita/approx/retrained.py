"""What retrained models have in place of exp, 1/x and 1/sqrt(x): Powerformer's BPmax, softmax_j ~ (x_j + c)^p
/ R_d with a stored R_d. Its models are retrained with it (p = c = 5 in their code), so nothing is
approximated.

The polynomial of degree p is exact, in ceil(log2(p + 1)) levels: ((x + offset) / top)^power. top = max |x +
offset| on the domain keeps the value in [-1, 1]; it belongs into 1/R_d.

A constant reads its input and gives the same number whatever it holds, in no level, so that the circuit of a
function can be used as it is. Whoever asks `is_constant` first may leave out what computes the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, FitError, Interval
from tacita.approx.poly import ChebyshevSpec
from tacita.approx.spec import MARGIN, Spec

if TYPE_CHECKING:
    from tacita.slots.base import Backend, Ct

MOST = 15  # largest power


def exact_power(x: Array, offset: float, power: int) -> Array:
    """Computes (x + offset)^power, elementwise."""
    return np.asarray((np.asarray(x, dtype=np.float64) + offset) ** power, dtype=np.float64)


def top(interval: Interval, offset: float) -> float:
    """Returns max |x + offset| over the domain of `power_spec`."""
    lo, hi = fitting.widen(interval, MARGIN)
    return max(abs(lo + offset), abs(hi + offset))


def power_spec(interval: Interval, offset: float, power: int) -> ChebyshevSpec:
    """The power's polynomial on the interval, widened by the margin. Errors: FitError (power, interval)."""
    if not 1 <= power <= MOST:
        raise FitError(f"power fit: power {power}", hint=f"it must be from 1 to {MOST}")
    domain, scale = fitting.widen(interval, MARGIN), top(interval, offset)
    series = fitting.interpolate(lambda x: exact_power(x / scale, offset / scale, power), domain, power)
    return ChebyshevSpec("power", interval, domain, series.error, False, series.floats)


@dataclass(frozen=True)
class ConstantSpec(Spec):
    """f(x) = value. Depth 0, no product."""

    kind = "constant"
    value: float

    def depth(self, input_scale: float = 1.0) -> int:
        return 0

    def multiplications(self) -> int:
        return 0

    def numpy(self, x: Array) -> Array:
        return np.full_like(np.asarray(x, dtype=np.float64), self.value)

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        return be.add_const(be.sub(ct, ct), self.value * output_scale)


def constant_spec(function: str, interval: Interval, value: float) -> ConstantSpec:
    """Builds a constant. function: the one that it stands for. interval: of the input that is ignored.
    Errors: FitError (empty interval)."""
    fitting.check_interval(f"{function} (constant)", interval)
    return ConstantSpec(function, interval, interval, 0.0, True, value)


def is_constant(spec: Spec) -> bool:
    """Whether the value does not depend on the input."""
    return isinstance(spec, ConstantSpec)
