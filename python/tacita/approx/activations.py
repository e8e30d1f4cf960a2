"""Activations: GELU in both its forms, SiLU, ELU, tanh, ReLU and its square.

    gelu.fit((-8.0, 8.0), error=1e-3)     # a Spec
    gelu.exact(x)                         # what is approximated, elementwise

Each is a value of the class of its fits. `Series`: one minimax polynomial. `HalfEven`: a function that is x/2
plus an even one, as GELU and SiLU are. `Kinked`: least squares on the inputs as they are distributed.
`Refreshed`: by the bootstrap of the argument (LEAF). All errors are absolute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
from numpy.polynomial import chebyshev

from tacita.approx import fit as fitting
from tacita.approx import fourier, poly
from tacita.approx.fit import Array, Function, Interval
from tacita.approx.spec import MARGIN, Spec, cheapest, half_width


@dataclass(frozen=True)
class Series:
    """A function with one polynomial of each degree. name: in errors and specs. exact: elementwise.

    make: (interval, degree) -> the spec. even: whether degrees are of T_2 (`poly.even_spec`).
    """

    name: str
    exact: Function
    make: Callable[[Interval, int], Spec]
    even: bool = False

    def fit(self, interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
        """Returns the spec of least depth, then least degree, with absolute error <= `error`. Raises FitError
        when max_depth is too small."""
        return poly.least_degree(
            self.name, partial(self.make, interval), interval, error, max_depth, self.even
        )


@dataclass(frozen=True)
class HalfEven:
    """A function f for which f(x) - x/2 is even: x s(x) with s(x) + s(-x) = 1. name, exact: as of `Series`.

    The even rest is fitted on a symmetric calibrated interval, in powers of T_2, so that half of the
    coefficients are there: for GELU one minimax polynomial (degree 30 or 62 in x) reaches 1e-3 and better in
    5 or 6 levels on the intervals that occur.
    """

    name: str
    exact: Function

    def fit(self, interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
        """Returns the spec of least depth, then fewest products, with absolute error <= `error`. Raises
        FitError when max_depth is too small."""
        specs = (
            poly.smallest_degree(partial(make, interval), error, max_depth, even)
            for make, even in self._forms(interval)
        )
        return cheapest(self.name, specs, interval, error, max_depth)

    def _even(self, interval: Interval, degree: int) -> Spec:
        """Symmetric domain, max |x| plus the margin on each side; `degree` counts powers of T_2."""
        bound = fitting.symmetric(self.name, interval, 2.0 * MARGIN)
        return poly.even_spec(self.name, lambda x: self.exact(x) - 0.5 * x, 0.5, interval, bound, degree)

    def _forms(self, interval: Interval) -> list[tuple[Callable[[Interval, int], Spec], bool]]:
        """(fit of a degree, whether it is the even form): the even one, and the plain one where a symmetric
        domain would be more than a tenth wider than the interval."""
        fitting.check_interval(self.name, interval)
        lo, hi = interval
        lopsided = 2.0 * max(abs(lo), abs(hi)) > 1.1 * (hi - lo)
        return [
            (self._even, True),
            *([(partial(poly.widened_spec, self.name, self.exact), False)] if lopsided else []),
        ]


ERF_STEP, ERF_END = 2.0**-9, 6.0  # of the table; beyond its end erf is 1 in double precision


@lru_cache(maxsize=1)
def _erf_table() -> tuple[Array, Array]:
    """Returns erf and its derivative at the multiples of ERF_STEP up to ERF_END."""
    points = np.arange(int(ERF_END / ERF_STEP) + 1) * ERF_STEP
    return np.array([math.erf(p) for p in points]), 2.0 / math.sqrt(math.pi) * np.exp(-points * points)


def erf(x: Array) -> Array:
    """Computes erf elementwise, within 3e-16, by Taylor's series of four terms about the nearest point of a
    table: a seventh of the time of `math.erf`."""
    values, slopes = _erf_table()
    size = np.fmin(np.abs(x), ERF_END)  # of what is no number, too
    place = np.rint(size / ERF_STEP)
    p, index = place * ERF_STEP, place.astype(np.int64)
    d, twice = size - p, 2.0 * p * p
    rest = p - d * ((twice - 1.0) / 3.0 - d * p * (twice - 3.0) / 6.0)
    return np.asarray(np.copysign(values[index] + slopes[index] * d * (1.0 - d * rest), x))


def _gelu(x: Array) -> Array:
    """Computes x Phi(x) with the exact erf, elementwise."""
    x = np.asarray(x, dtype=np.float64)
    return 0.5 * x * (1.0 + fitting.in_pieces(lambda piece: erf(piece / math.sqrt(2.0)), x))


def _gelu_tanh(x: Array) -> Array:
    """Computes x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), elementwise: `gelu_new` and
    `gelu_pytorch_tanh`, within 5e-4 of the exact GELU."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))


def _silu(x: Array) -> Array:
    """Computes x sigmoid(x), elementwise; by tanh, which does not overflow."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(0.5 * x * (1.0 + np.tanh(0.5 * x)))


# THOR's composition of degrees 31 and 27 (appendix C) takes 11 levels where these take 5 or 6
gelu = HalfEven("gelu", _gelu)
gelu_tanh = HalfEven("gelu_tanh", _gelu_tanh)
silu = HalfEven("silu", _silu)

# ELU with alpha = 1. Its second derivative jumps at 0, so that a series converges with 1/degree^2: 2e-3 takes
# degree 53 on [-8, 8], where GELU and SiLU take half as many coefficients.


def _elu(x: Array) -> Array:
    return np.asarray(np.where(np.less(x, 0.0), np.expm1(np.minimum(x, 0.0)), x))


elu = Series("elu", _elu, partial(poly.widened_spec, "elu", _elu))

# tanh for the pooler, one ciphertext an inference.
#
# Its poles at +-i pi/2 make the error fall by exp(-pi degree / (2 bound)): degree 63 gives 1e-4 and degree
# 127 gives 1e-8 on [-10, 10]. THOR's composition of two degree-15 polynomials (appendix C, with a misprinted
# coefficient) has 8 levels; degree 127 has 7.


def _tanh_spec(interval: Interval, degree: int) -> Spec:
    """Fits on a symmetric domain, so that storing x / bound makes the affine map free."""
    bound = fitting.symmetric("tanh", interval, 2.0 * MARGIN)
    return poly.chebyshev_spec("tanh", np.tanh, interval, (-bound, bound), degree)


tanh = Series("tanh", np.tanh, _tanh_spec)

# Least squares weighted by the calibrated inputs, for functions with a kink: ReLU and its square.
#
# A minimax fit spends the same on every input, and for a kink that is a lot everywhere. What reaches the
# answer is an average over features and tokens, so least squares on the inputs as they are distributed lose
# far less.

FLOOR = 0.02  # weight of inputs that were never seen, as a share of a uniform density
GRID = 20001  # points on which errors are measured
POINTS = 12  # of the fit, per degree


@dataclass(frozen=True)
class Kinked(Series):
    """A function with a kink. size: (interval, density of the inputs) -> what errors are a share of."""

    size: Callable[[Interval, Array], float] = field(kw_only=True)

    def fit_density(
        self, interval: Interval, share: float, density: Sequence[float], *, max_depth: int = 9
    ) -> Spec:
        """Returns the spec of least depth, then least degree, with a root-mean-square error of at most
        share * `size`.

        density: share of the inputs in each of equal bins of the interval. Raises FitError when out of reach.
        """
        domain, weights = fitting.widen(interval, MARGIN), np.asarray(density, dtype=np.float64)
        return poly.least_degree(
            f"{self.name}, root mean square,",
            lambda degree: self._least_squares(interval, domain, degree, weights),
            interval,
            share * self.size(interval, weights),
            max_depth,
            measure=lambda spec: _mean(spec.interval, weights, lambda x: spec.numpy(x) - self.exact(x)),
        )

    def _least_squares(self, interval: Interval, domain: Interval, degree: int, density: Array) -> Spec:
        """Solves the normal equations, which are well conditioned: the weights lie between FLOOR and the
        largest density."""
        u = -np.cos(np.pi * np.arange(POINTS * (degree + 2) + 1) / (POINTS * (degree + 2)))
        x = fitting.from_unit(u, domain)
        # the points are dense at the ends like 1/sqrt(1 - u^2); this factor makes them even
        weights = _weights(x, interval, density, FLOOR) * np.sqrt(np.maximum(1.0 - u * u, 1e-9))
        powers = chebyshev.chebvander(u, degree)
        weighted = powers * weights[:, None]
        solution = np.linalg.solve(weighted.T @ powers, weighted.T @ self.exact(x))
        coefficients = tuple(float(c) for c in solution)
        spec = poly.ChebyshevSpec(self.name, interval, domain, 0.0, False, coefficients)
        even = np.linspace(*domain, GRID)
        return replace(spec, error=float(np.max(np.abs(spec.numpy(even) - self.exact(even)))))


def _mean(interval: Interval, density: Array, of: Function) -> float:
    """Returns the root mean square of a function over inputs of this density."""
    x = np.linspace(*interval, GRID)
    weights = _weights(x, interval, density, 0.0)
    return float(np.sqrt(weights @ of(x) ** 2 / weights.sum()))


def _weights(x: Array, interval: Interval, density: Array, floor: float) -> Array:
    """Returns the density at x relative to a uniform one, plus the floor; 0 outside the interval but for the
    floor."""
    lo, hi = interval
    bins = len(density)
    centres = lo + (np.arange(bins) + 0.5) * (hi - lo) / bins
    inside = np.interp(x, centres, density * bins / density.sum(), left=0.0, right=0.0)
    return np.asarray(inside + floor)


# ReLU: a least-squares polynomial weighted by the calibrated inputs, or x/2 + |x|/2 as one minimax even one.
#
# No polynomial of degree n approximates |x| on [-1, 1] better than 0.28/n (Bernstein), so the error is about
# 0.14 * bound / 2^depth: 2.2e-3 * bound in 6 levels, 5.5e-4 * bound in 8. Compositions of sign polynomials
# (Lee et al., ePrint 2020/834) lose at the same depth until 12 levels.
#
# The largest error sits at the corner, so the fit follows the calibrated inputs. The domain follows the
# interval, which is lopsided after most normalisations.


def _relu(x: Array) -> Array:
    return np.maximum(np.asarray(x, dtype=np.float64), 0.0)


def _relu_spec(interval: Interval, degree: int) -> Spec:
    bound = fitting.symmetric("relu", interval, 2.0 * MARGIN)
    return poly.even_spec("relu", lambda x: 0.5 * np.abs(x), 0.5, interval, bound, degree)


def _half_domain(interval: Interval, _density: Array) -> float:
    return half_width(fitting.widen(interval, MARGIN))


relu = Kinked("relu", _relu, _relu_spec, even=True, size=_half_domain)

# ReLU squared, of Primer's models: smooth once, so that a plain series converges with 1/degree^2 where ReLU's
# own does with 1/degree.
#
# Its inputs lie close together with a few far out, whose squares are the scale of an error that is the same
# everywhere. So errors are a share of the root mean square of the results.


def _relu_squared(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0.0) ** 2)


_widened = partial(poly.widened_spec, "relu2", _relu_squared)
relu_squared = Kinked("relu2", _relu_squared, _widened, size=partial(_mean, of=_relu_squared))

# Activations computed by the bootstrap of their argument, right on a range that no calibration has to show:
# LEAF's way.
#
# The inputs of a real BERT-base's GELUs reach [-61, 108] (the activations of the ARION checkpoint); a text on
# which a model was calibrated may show [-8, 8] of them. So the domain is WIDE whatever the calibration says,
# and wider where it says so. On WIDE 2e-3 takes 126 harmonics of GELU and of its form with tanh and 97 of
# SiLU: seven levels of the thirteen, and one more for each doubling of the range.

WIDE = (-64.0, 128.0)
SPARE = 0.1  # of a calibrated interval on each side: it fills 1 / 1.2 of the domain at most
OUTSIDE = 64.0  # times the largest |f|, beyond the domain: the answer of such an input fails its checks


@dataclass(frozen=True)
class Refreshed:
    """A function by a bootstrap. name, exact: as of `Series`."""

    name: str
    exact: Function

    def fit(self, interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
        """Returns the spec of fewest harmonics with absolute error <= `error` on the whole domain. Raises
        FitError when max_depth levels do not suffice."""
        low, high = fitting.widen(interval, SPARE)
        domain = min(low, WIDE[0]), max(high, WIDE[1])
        return _refreshed(self, interval, domain, error, max_depth)


@lru_cache(maxsize=64)
def _refreshed(of: Refreshed, interval: Interval, domain: Interval, error: float, max_depth: int) -> Spec:
    return fourier.fit(of.name, of.exact, interval, domain, error, max_depth=max_depth, outside=OUTSIDE)


REFRESHED = {f.name: Refreshed(f.name, f.exact) for f in (gelu, gelu_tanh, silu, elu)}
