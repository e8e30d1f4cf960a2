"""A constant in place of a function: 1/R with a stored R, as Powerformer's retrained models have it (see
`power`).

It reads its input and gives the same number whatever it holds, in no level, so that the circuit of a function
can be used as it is. Whoever asks `is_constant` first may leave out what computes the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import Spec

if TYPE_CHECKING:
    from tacita.slots.base import Backend, Ct


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


def fit(function: str, interval: Interval, value: float) -> ConstantSpec:
    """Builds a constant. function: the one that it stands for. interval: of the input that is ignored.
    Errors: FitError (empty interval)."""
    fitting.check_interval(f"{function} (constant)", interval)
    return ConstantSpec(function, interval, interval, 0.0, True, value)


def is_constant(spec: Spec) -> bool:
    """Whether the value does not depend on the input."""
    return isinstance(spec, ConstantSpec)
