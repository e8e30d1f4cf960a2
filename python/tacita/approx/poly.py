"""Single polynomials: a Chebyshev series, and the even one plus a linear term that halves the products.

`Backend.poly` evaluates a series on [-1, 1] in ceil(log2(degree + 1)) levels, so a degree is only worth
taking at the top of its level (31, 63, 127, ...) or as low inside it as the stated error allows (fewer
products).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, FitError, Function, Interval
from tacita.approx.spec import MARGIN, S, Spec, half_width, map_levels, normalise, unreachable
from tacita.slots.base import Backend, Ct
from tacita.slots.counts import series_depth, series_multiplications


@dataclass(frozen=True)
class ChebyshevSpec(Spec):
    """p(x) = sum_k coefficients[k] T_k(u), u the affine image of x in `domain`. Depth
    ceil(log2(degree+1))."""

    kind = "chebyshev"
    coefficients: tuple[float, ...]

    def depth(self, input_scale: float = 1.0) -> int:
        return series_depth(len(self.coefficients) - 1) + map_levels(self.domain, input_scale)

    def multiplications(self) -> int:
        return series_multiplications(len(self.coefficients) - 1)

    def numpy(self, x: Array) -> Array:
        return fitting.evaluate_series(np.array(self.coefficients), fitting.to_unit(x, self.domain))

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        u = normalise(be, ct, self.domain, input_scale)
        return be.poly(u, np.array(self.coefficients) * output_scale)


@dataclass(frozen=True)
class EvenSpec(Spec):
    """p(x) = linear * u + sum_k coefficients[k] T_k(T_2(u)): GELU and ReLU are x/2 plus an even function.

    T_2(u) = 2u^2 - 1 is one square; the series then has half the degree, hence the same depth as the plain
    series and about 1/sqrt(2) of its products. The domain is symmetric.
    """

    kind = "even"
    linear: float
    coefficients: tuple[float, ...]

    def depth(self, input_scale: float = 1.0) -> int:
        return 1 + series_depth(len(self.coefficients) - 1) + map_levels(self.domain, input_scale)

    def multiplications(self) -> int:
        return 1 + series_multiplications(len(self.coefficients) - 1)

    def numpy(self, x: Array) -> Array:
        u = fitting.to_unit(x, self.domain)
        return self.linear * u + fitting.evaluate_series(np.array(self.coefficients), 2.0 * u * u - 1.0)

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        u = normalise(be, ct, self.domain, input_scale)
        even = be.poly(second_chebyshev(be, u), np.array(self.coefficients) * output_scale)
        # the linear term is taken from u, far above the series' level, so it costs no level
        return be.add(even, be.mul_const(u, self.linear * output_scale))


def second_chebyshev(be: Backend, u: Ct) -> Ct:
    """Computes T_2(u) = 2u^2 - 1: one square, one level."""
    square = be.square(u)
    return be.add_const(be.add(square, square), -1.0)


def chebyshev_spec(
    function: str,
    f: Function,
    interval: Interval,
    domain: Interval,
    degree: int,
    weight: Function | None = None,
) -> ChebyshevSpec:
    """Fits a minimax series of this degree on `domain`; of relative error with a weight (1/|f|)."""
    fit = fitting.remez(f, domain, degree, weight)
    return ChebyshevSpec(function, interval, domain, fit.error, weight is not None, fit.floats)


def widened_spec(function: str, f: Function, interval: Interval, degree: int) -> ChebyshevSpec:
    """Fits a minimax series of the given degree on the interval as it lies, widened by the margin."""
    return chebyshev_spec(function, f, interval, fitting.widen(interval, MARGIN), degree)


def even_spec(
    function: str, even: Function, slope: float, interval: Interval, bound: float, degree: int
) -> EvenSpec:
    """slope*x + minimax fit of the even function on [-bound, bound] by a series of `degree` in T_2
    (2*degree in x).
    """

    def fold(t: Array) -> Array:  # of t = T_2(x / bound)
        return even(bound * np.sqrt(np.maximum(0.0, 0.5 * (t + 1.0))))

    fit = fitting.remez(fold, (-1.0, 1.0), degree)
    domain = (-bound, bound)
    return EvenSpec(function, interval, domain, fit.error, False, slope * half_width(domain), fit.floats)


def smallest_degree(
    make: Callable[[int], S],
    error: float,
    max_depth: int,
    even: bool = False,
    measure: Callable[[Spec], float] = lambda spec: spec.error,
) -> S:
    """The spec of least depth, then least degree, with at most `error`; that of the largest degree where
    max_depth does not suffice.

    `make(degree)` fits; depth d admits degrees up to 2^d - 1 (2^(d-1) - 1 when `even`: one level goes to
    T_2). measure: what must not exceed `error`, by default the largest error on the domain.
    """
    for levels in range(1, max(2, max_depth + 1 - even)):
        low, high = 2 ** (levels - 1), 2**levels - 1
        best = make(high)
        if measure(best) > error:
            continue
        while low < high:  # fewer products at the same depth
            middle = (low + high) // 2
            spec = make(middle)
            if measure(spec) <= error:
                best, high = spec, middle
            else:
                low = middle + 1
        break
    return best


def least_degree(
    function: str,
    make: Callable[[int], Spec],
    interval: Interval,
    error: float,
    max_depth: int,
    even: bool = False,
    measure: Callable[[Spec], float] = lambda spec: spec.error,
) -> Spec:
    """`smallest_degree`, for a function that has no other form. Raises FitError when max_depth does not
    suffice."""
    spec = smallest_degree(make, error, max_depth, even, measure)
    if (best := measure(spec)) > error:
        raise unreachable(function, interval, error, best, max_depth)
    return spec


# What retrained models have in place of exp, 1/x and 1/sqrt(x): Powerformer's BPmax, softmax_j ~ (x_j + c)^p
# / R_d with a stored R_d. Its models are retrained with it (p = c = 5 in their code), so nothing is
# approximated.
#
# The polynomial of degree p is exact, in ceil(log2(p + 1)) levels: ((x + offset) / top)^power. top = max |x +
# offset| on the domain keeps the value in [-1, 1]; it belongs into 1/R_d.
#
# A constant reads its input and gives the same number whatever it holds, in no level, so that the circuit of
# a function can be used as it is. Whoever asks `is_constant` first may leave out what computes the input.

MOST_POWER = 15


def exact_power(x: Array, offset: float, power: int) -> Array:
    """Computes (x + offset)^power, elementwise."""
    return np.asarray((np.asarray(x, dtype=np.float64) + offset) ** power, dtype=np.float64)


def power_weights(
    interval: Interval, offset: float, power: int, denominator: float
) -> tuple[ChebyshevSpec, ConstantSpec]:
    """Returns what stands in place of exp and of 1/x where weights are (x + offset)^power / denominator. The
    interval is widened by the margin. Errors: FitError (power, interval)."""
    if not 1 <= power <= MOST_POWER:
        raise FitError(f"power fit: power {power}", hint=f"it must be from 1 to {MOST_POWER}")
    domain = fitting.widen(interval, MARGIN)
    top = max(abs(end + offset) for end in domain)
    series = fitting.interpolate(lambda x: exact_power(x / top, offset / top, power), domain, power)
    exp = ChebyshevSpec("power", interval, domain, series.error, False, series.floats)
    return exp, constant_spec("inverse", (-1.0, 1.0), top**power / denominator)


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
    """Builds a constant in place of a function. interval: of the ignored input. Errors: FitError (empty)."""
    fitting.check_interval(f"{function} (constant)", interval)
    return ConstantSpec(function, interval, interval, 0.0, True, value)


def is_constant(spec: Spec) -> bool:
    """Whether the value does not depend on the input."""
    return isinstance(spec, ConstantSpec)
