"""1/sqrt(x) from a line, Newton steps and last steps in Goldschmidt's coupled form: MOAI's LayerNorm,
refitted.

MOAI's code starts from -1.29e-4 x + 0.129 for every layer and takes 4 Newton and 2 Goldschmidt steps. Here
the line is the minimax one of the calibrated interval and every step has its own (alpha, beta), as in
`iterative`: y <- y (alpha - beta z), z = x y^2. The coupled form keeps g = x y beside h = y, so that z = g h;
it has the values of Newton's. Its first step takes a level more than Newton's and a product less at the end,
so nothing is gained by it at equal steps; `rsqrt` searches more widely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, Interval
from tacita.approx.inverses.rsqrt import measured_newton
from tacita.approx.iterative import NewtonSpec, newton_spec
from tacita.approx.spec import MARGIN, Spec, first, pareto

if TYPE_CHECKING:
    from tacita.slots.base import Backend, Ct

COUPLED = 2  # last steps in coupled form, as in the paper's code
MOST_STEPS = 12


@dataclass(frozen=True)
class CoupledSpec(Spec):
    """newton: line and Newton steps; steps: (alpha, beta) of the coupled ones. Depth of newton, 1, and 2 a
    step."""

    kind = "coupled"
    newton: NewtonSpec
    steps: tuple[tuple[float, float], ...]

    def depth(self, input_scale: float = 1.0) -> int:
        return self.newton.depth(input_scale) + 1 + 2 * len(self.steps)

    def multiplications(self) -> int:
        return self.newton.multiplications() + 3 * len(self.steps)

    def numpy(self, x: Array) -> Array:
        h = self.newton.numpy(x)
        g = np.asarray(x, dtype=np.float64) * h
        for alpha, beta in self.steps:
            factor = alpha - beta * g * h
            g, h = g * factor, h * factor
        return h

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        h = self.newton.evaluate(be, ct, input_scale)
        g = be.mul(h, be.mul_const(ct, 1.0 / input_scale))  # x is at its entry level: no level that counts
        for i, (alpha, beta) in enumerate(self.steps):
            last = i + 1 == len(self.steps)
            ratio = be.add_const(be.neg(be.mul(g, h)), alpha / beta)
            # multiplied by beta beside the product g h, which is a level lower than either
            h = be.mul(be.mul_const(h, beta * (output_scale if last else 1.0)), ratio)
            g = g if last else be.mul(be.mul_const(g, beta), ratio)
        return h


def coupled_spec(interval: Interval, domain: Interval, newton: int, coupled: int) -> CoupledSpec:
    """Fits a minimax line, then `newton` and `coupled` steps (at least one) refitted to the range that each
    one finds."""
    whole = measured_newton(interval, domain, 1, newton + coupled)
    first = newton_spec(interval, domain, 1, newton)
    return CoupledSpec("rsqrt", interval, domain, whole.error, True, first, whole.steps[newton:])


def fit(interval: Interval, error: float, *, max_depth: int = 2 * MOST_STEPS + 2) -> Spec:
    """Returns the spec of fewest steps with relative error <= `error`. Raises FitError when out of reach."""
    return first("rsqrt (coupled)", _all(interval, max_depth), interval, error, max_depth)


def candidates(interval: Interval, *, max_depth: int = 14) -> tuple[Spec, ...]:
    """Lists one spec per number of steps within max_depth levels."""
    return pareto(_all(interval, max_depth))


def _all(interval: Interval, max_depth: int) -> Iterator[Spec]:
    domain = fitting.widen_ratio(interval, MARGIN)
    for steps in range(1, MOST_STEPS + 1):
        if 2 * steps + 2 <= max_depth:
            yield coupled_spec(interval, domain, max(0, steps - COUPLED), min(steps, COUPLED))
