"""1/x on a positive interval, relative error: Goldschmidt with adaptive relaxation (aSOR; THOR, section 5.1
and appendix C).

    a <- k a (2 - k a),  b <- k b (2 - k a)    with k = 2 / (1 + eps), eps the smallest a

One level an iteration, two products. Integer factors come before a product, so that they do not multiply the
noise that it adds. Since 1 - k a -> (e^2)/(2 - e^2) is the Chebyshev double-angle, T
iterations give exactly the minimax polynomial of degree 2^T - 1 in relative error, 1 / cosh(2^T acosh((hi +
lo) / (hi - lo))), e.g. 1e-3 at T = 7 for hi/lo = 1000, with 2T - 2 products where Paterson-Stockmeyer needs
about 2^(T/2+1). No single polynomial is better at the same depth. The k are derived from the interval, never
copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, MAX_INT, Spec, first, scale_by
from tacita.slots.base import Backend, Ct

HEADROOM = 1.25  # a stored operand may exceed 1 by this much: squares keep the running constant near 1
ROUNDING = 4e-15  # no error below what float64 shows is stated


def exact(x: Array) -> Array:
    """Computes 1/x, elementwise."""
    return 1.0 / np.asarray(x, dtype=np.float64)


def fit(interval: Interval, error: float, *, max_depth: int = 16) -> Spec:
    """Returns the spec of fewest iterations with relative error <= `error`. Raises FitError when max_depth is
    too small."""
    domain = fitting.widen_ratio(interval, MARGIN)
    specs = (goldschmidt_spec(interval, domain, levels) for levels in range(2, max_depth + 1))
    return first("inverse", specs, interval, error, max_depth)


@dataclass(frozen=True)
class GoldschmidtSpec(Spec):
    """1/x on `domain` = [lo, hi] > 0 by len(relaxation) iterations. Depth: one level each; 2T - 2
    products."""

    kind = "goldschmidt"
    relaxation: tuple[float, ...]

    def depth(self, input_scale: float = 1.0) -> int:
        return len(self.relaxation) + (1 if self._entry(input_scale) < 1.0 else 0)

    def free_scale(self) -> float:
        return 1.0 / self.domain[1]

    def multiplications(self) -> int:
        return 2 * len(self.relaxation) - 2

    def numpy(self, x: Array) -> Array:
        a = np.asarray(x, dtype=np.float64) / self.domain[1]
        b = np.full_like(a, _closing(self) / self.domain[1])
        for k in self.relaxation:
            a, b = k * a * (2.0 - k * a), k * b * (2.0 - k * a)
        return b

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        """The factors k_i are carried in a running constant: a_i = c_i * alpha_i, with small integers (free)
        in place of the level that a multiplication by k_i would cost; what remains is folded into b_1, an
        affine map of x.
        """
        alpha, steps = scale_by(be, ct, self._entry(input_scale)), self._steps(input_scale)
        first = output_scale * _closing(self) / self.domain[1] * _rest(steps[1:]) * steps[0].b_factor
        beta = be.add_const(be.mul_const(alpha, -first), first * steps[0].target)
        for i, step in enumerate(steps[1:]):
            alpha = _next(be, alpha, steps[i])
            beta = be.mul(scale_by(be, beta, step.b_integer), _complement(be, alpha, step.target))
        return beta

    def divide(self, be: Backend, numerators: Sequence[Ct], ct: Ct, input_scale: float = 1.0) -> list[Ct]:
        """Maps numerator to numerator / x * divide_factor(input_scale), at depth(input_scale) levels below
        the lower operand: one level less than `evaluate` and a product, because the numerator takes the place
        of b_0.

        Cost: T - 1 + T * len(numerators) products. Intermediate values stay within max |numerator| / lo *
        factor.
        """
        return self.begin(be, numerators, ct, len(self.relaxation), input_scale)

    def divide_factor(self, input_scale: float = 1.0) -> float:
        """Returns the constant that `divide` leaves in its results, about hi: for the next plaintext."""
        return self.domain[1] / (_closing(self) * _rest(self._steps(input_scale)))

    def begin(
        self, be: Backend, numerators: Sequence[Ct], ct: Ct, early: int, input_scale: float = 1.0
    ) -> list[Ct]:
        """Maps numerator to numerator * a * hi / x / begin_factor(early, input_scale), where a in [least, 1]
        is what the first `early` iterations make of x / hi: `divide` stopped there. Levels: early.

        What is left to do is to divide by a, which `after` does. a spans 4^early times less than x.
        """
        alpha, steps = scale_by(be, ct, self._entry(input_scale)), self._steps(input_scale)
        quotients = list(numerators)
        for i, step in enumerate(steps[:early]):
            alpha = _next(be, alpha, steps[i - 1]) if i else alpha
            factor = _complement(be, alpha, step.target)
            quotients = [be.mul(scale_by(be, q, step.b_integer), factor) for q in quotients]
        return quotients

    def begin_factor(self, early: int, input_scale: float = 1.0) -> float:
        """Returns the constant by which `begin` divides: between 0.6 and 1.5 to the power of early."""
        return _rest(self._steps(input_scale)[:early])

    def after(self, early: int) -> GoldschmidtSpec:
        """Computes 1/a by the other iterations, for the a of `begin`."""
        domain = (_smallest(self.domain, self.relaxation[:early]), 1.0)
        return replace(self, interval=domain, domain=domain, relaxation=self.relaxation[early:])

    def _steps(self, input_scale: float) -> list[_Step]:
        """Returns the iterations on alpha, where a_i = c_i * alpha_i and a_0 = x / hi."""
        steps, c = list[_Step](), 1.0 / (self.domain[1] * input_scale * self._entry(input_scale))
        for k in self.relaxation:
            a_integer, b_factor = max(1, round(k * k * c * c)), k * k * c
            steps.append(_Step(2.0 / (k * c), a_integer, b_factor, max(1, round(b_factor))))
            c = k * k * c * c / a_integer
        return steps

    def _entry(self, input_scale: float) -> float:
        """Returns the factor that brings the largest stored operand to about 1: an integer (free), or below 1
        (one level)."""
        largest = self.domain[1] * input_scale
        return 1.0 / largest if largest > HEADROOM else float(min(MAX_INT, max(1, int(1.0 / largest))))


@dataclass(frozen=True)
class _Step:
    """k a (2 - k a) = k^2 c^2 alpha (target - alpha) and k b (2 - k a) = k^2 c b (target - alpha)."""

    target: float
    a_integer: int  # free integer part of k^2 c^2
    b_factor: float  # k^2 c
    b_integer: int  # its free integer part; the rest is folded into a constant


def _rest(steps: Sequence[_Step]) -> float:
    return math.prod(step.b_factor / step.b_integer for step in steps)


def _next(be: Backend, alpha: Ct, step: _Step) -> Ct:
    return be.mul(scale_by(be, alpha, step.a_integer), _complement(be, alpha, step.target))


def _complement(be: Backend, a: Ct, target: float) -> Ct:
    return be.add_const(be.neg(a), target)


def _closing(spec: GoldschmidtSpec) -> float:
    """Returns the last relaxation: centres x*b, which lies in [eps, 1] after the iterations, on 1."""
    return 2.0 / (1.0 + _smallest(spec.domain, spec.relaxation))


def _smallest(domain: Interval, relaxation: tuple[float, ...]) -> float:
    eps = domain[0] / domain[1]
    for k in relaxation:
        eps = k * eps * (2.0 - k * eps)
    return eps


def goldschmidt_spec(interval: Interval, domain: Interval, iterations: int) -> GoldschmidtSpec:
    """aSOR with `iterations` steps on `domain`; error (relative) = (1 - eps_T) / (1 + eps_T), exact by
    construction.
    """
    fitting.check_interval("goldschmidt", domain, positive=True)
    relaxation: tuple[float, ...] = ()
    for _ in range(iterations):
        relaxation += (2.0 / (1.0 + _smallest(domain, relaxation)),)
    eps = _smallest(domain, relaxation)
    error = max((1.0 - eps) / (1.0 + eps), ROUNDING)
    return GoldschmidtSpec("inverse", interval, domain, error, True, relaxation)
