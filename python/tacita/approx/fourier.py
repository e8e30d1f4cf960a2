"""Trigonometric polynomials by which a bootstrap computes a function: Fourier extensions.

An example: GELU on [-64, 128] to 2e-3 by 124 harmonics. `Backend.bootstrap_through` takes u in [-1, 1] to
p(u) = sum_k a_k cos(k PHASE u) + b_k sin(k PHASE u). PHASE is 69 % of pi, so f may be anything at u = 1 and
u = -1: the fit sees only [-1, 1] and joins the ends on the rest of the circle as it likes ("Fourier
extension"; ePrint 2026/367 uses it for functional bootstrapping). Its resolution is that of Chebyshev's
series with pi / 2 of the terms, because points of a circle do not crowd at the ends.

**Noise.** An error e of the engine's z makes one of sum k |c_k| e in f, so huge coefficients that cancel on
[-1, 1] are useless. The least squares therefore also minimise RIDGE^2 sum k^2 |c_k|^2: with RIDGE = 1e-6 of
the largest |f|, sum k |c_k| stays near the function's own variation (300 for GELU to 128) where plain least
squares would reach 10^6 and lose 2^-7 of a value to noise of 2^-27.

**Range.** Domains are chosen wide, not calibrated: a wider one costs harmonics in proportion. What lies
beyond one comes back on the circle, with a value as plausible as any. So functions of a model add a hump
(`outside`) that is nothing on [-1, 1] and many times the largest |f| on the other side of the circle, which
inputs from 1.2 to 1.7 bounds reach: the norm that follows leaves its interval, and the client's checks fail.
It takes two harmonics more, as a hump so wide has 24.

**Tables.** Any function of finitely many arguments, a step, a sign or ReLU of whole numbers, is a `Table`.
Its trigonometric polynomial has the table's values *at* the points, not near them, and slope 0 there, so that
the noise of an argument comes back as its square (Alexandru, Kim, Polyakov, ePrint 2024/1623). Between the
points it is what has the least curvature. That takes 1.1 to 1.4 harmonics a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, FitError, Function, Interval
from tacita.approx.poly import least_degree
from tacita.approx.spec import Spec, map_levels, normalise
from tacita.slots.base import Backend, Ct, Kind
from tacita.slots.bootstraps import PHASE, evaluate_harmonics
from tacita.slots.counts import series_depth, series_multiplications

RIDGE = 1e-6
EDGE = 1.0 / 128.0  # of [-1, 1]: what the fit covers beyond it, for inputs that noise moves
HUMP = 24  # harmonics
REMAINS = 2.0**-24  # of the hump's height on [-1, 1]
GRID = 6  # points a harmonic in the fit; eight times as many measure its error
MOST_POINTS = 256  # of a table: of so many a fit takes some seconds
LARGEST = 1e15  # of its points and values
NEAR = 2.0**-16  # of a table's half-width: the noise with which an argument comes
NOISE = 2.0**-27  # of the engine's z


@dataclass(frozen=True)
class FourierSpec(Spec):
    """p(x) = sum_k cosines[k] cos(k PHASE u) + sines[k] sin(k PHASE u), u the affine image of x in `domain`.

    The only spec whose evaluation refreshes its ciphertext.
    """

    kind = "fourier"
    refreshes = True
    cosines: tuple[float, ...]
    sines: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.cosines) == len(self.sines) >= 2:
            counts = f"{len(self.cosines)} cosines and {len(self.sines)} sines"
            raise FitError(f"{self.function}: {counts}", hint="as many of both, two at least")

    @property
    def harmonics(self) -> np.ndarray:
        """c_0 ... c_n, as `Backend.bootstrap_through` takes them."""
        return np.array(self.cosines) - 1j * np.array(self.sines)

    def depth(self, input_scale: float = 1.0) -> int:
        """Levels of the result below a fresh ciphertext, wherever the input was, and of the affine map."""
        return series_depth(len(self.cosines) - 1) - 1 + map_levels(self.domain, input_scale)

    def multiplications(self) -> int:
        return series_multiplications(len(self.cosines) - 1)

    def numpy(self, x: Array) -> Array:
        return np.asarray(evaluate_harmonics(self.harmonics, fitting.to_unit(x, self.domain)), np.float64)

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        return self.evaluate_all(be, [ct], input_scale, output_scale)[0]

    def evaluate_all(
        self, be: Backend, cts: Sequence[Ct], input_scale: float = 1.0, output_scale: float = 1.0
    ) -> list[Ct]:
        """Lets two and two real ciphertexts share a bootstrap."""
        us = [normalise(be, ct, self.domain, input_scale) for ct in cts]
        odd = len(us) % 2
        kinds: list[Kind] = ["pair"] * (len(us) - odd)
        kinds += ["real"] * odd
        return be.bootstrap_through(us, kinds, self.harmonics * output_scale)


def fourier_spec(
    function: str, f: Function, interval: Interval, domain: Interval, degree: int, outside: float = 0.0
) -> FourierSpec:
    """The extension of f from `domain` by so many harmonics. outside: height of a hump on the other side of
    the circle, in multiples of the largest |f|. Cost: two least squares of `degree` unknowns, as
    cosines see the even part of f(u) and sines the odd one (10 ms at 127)."""
    fitting.check_interval(function, domain)
    u = _half_grid(GRID * degree, 1.0 + EDGE)
    right, left = f(_at(u, domain)), f(_at(-u, domain))
    size = float(np.max(np.abs([right, left])))
    cosines = size * (_solve(np.cos, u, 0.5 * (right + left) / size, degree) + outside * _hump(degree))
    sines = size * _solve(np.sin, u, 0.5 * (right - left) / size, degree)
    spec = FourierSpec(function, interval, domain, 0.0, False, _floats(cosines), _floats(sines))
    half = _half_grid(8 * GRID * (degree + 1), 1.0)
    x = _at(np.concatenate([-half, half]), domain)
    return replace(spec, error=float(np.max(np.abs(spec.numpy(x) - f(x)))))


def _solve(part: Function, u: Array, values: Array, degree: int) -> Array:
    """The coefficients of part(k PHASE u) that follow the values, none of them large; 0 for sin(0)."""
    orders = np.arange(degree + 1)
    matrix = part(PHASE * np.outer(u, orders))
    ridge = np.diag(RIDGE * np.sqrt(2.0 * len(u)) * orders)
    rows, right = np.vstack([matrix, ridge]), np.concatenate([values, np.zeros(degree + 1)])
    return np.asarray(np.linalg.lstsq(rows, right, rcond=None)[0], np.float64)


def _hump(degree: int) -> Array:
    """Returns the cosines of the even polynomial in z that is 1 at u = pi / PHASE and least on [-1, 1]."""
    orders = np.arange(min(degree, HUMP) + 1)
    inside = np.cos(PHASE * np.outer(_half_grid(GRID * HUMP, 1.0 + EDGE), orders))
    least = np.linalg.solve(inside.T @ inside + np.diag(RIDGE**2 * (1.0 + orders**2)), (-1.0) ** orders)
    return np.pad(least / (least @ (-1.0) ** orders), (0, degree + 1 - len(orders)))


def fit(
    function: str,
    f: Function,
    interval: Interval,
    domain: Interval,
    error: float,
    *,
    max_depth: int = 9,
    outside: float = 0.0,
) -> Spec:
    """The extension of fewest harmonics with absolute error <= `error` on the whole domain, not only on the
    interval. outside: see `fourier_spec`, at most what leaves three quarters of the error to the fit.
    max_depth: of its polynomial in z. Raises FitError when that does not suffice."""
    size = float(np.max(np.abs(f(np.linspace(*domain, 1024)))))
    outside = min(outside, error / (4.0 * REMAINS * size))
    return least_degree(
        f"{function} (refreshed)",
        lambda degree: fourier_spec(function, f, interval, domain, degree, outside),
        domain,
        error,
        max_depth,
    )


@dataclass(frozen=True)
class Table:
    """A function of finitely many arguments: its values at ascending points. Between two points the value of
    the nearer one is meant, and none is promised.

    Errors: FitError for what is no such function.
    """

    points: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.points) <= MOST_POINTS or len(self.points) != len(self.values):
            raise _no_table(f"{len(self.points)} points and {len(self.values)} values")
        if others := [entry for entry in (*self.points, *self.values) if not _is_number(entry)]:
            raise _no_table(f"{str(others[0])[:20]!r} is no number up to {LARGEST:g}")
        if not all(a < b for a, b in pairwise(self.points)):
            raise _no_table("its points do not ascend")
        if min(self.values) == max(self.values):
            raise _no_table("all values are equal")

    @property
    def domain(self) -> Interval:
        """The first point and the last one."""
        return float(self.points[0]), float(self.points[-1])

    def numpy(self, x: Array) -> Array:
        """Returns the value at the point that is nearest, elementwise."""
        points = np.array(self.points, np.float64)
        return np.array(self.values, np.float64)[np.searchsorted(0.5 * (points[1:] + points[:-1]), x)]

    def fit(self, function: str, error: float, *, near: float = NEAR, max_depth: int = 9) -> FourierSpec:
        """Returns the polynomial of fewest harmonics with absolute error <= `error` where arguments lie: at
        most `near` half-widths of the domain from a point, and the engine's noise included. Raises FitError
        when max_depth levels do not suffice, as where two points are too close."""
        spec = least_degree(
            f"{function} (a table of {len(self.points)})",
            lambda degree: self._spec(function, near, degree),
            self.domain,
            error,
            max_depth,
        )
        assert isinstance(spec, FourierSpec)
        return spec

    def _spec(self, function: str, near: float, degree: int) -> FourierSpec:
        """Solves for the least sum k^4 |c_k|^2 with all values and slopes. Cost: one least squares of twice
        as many equations as points."""
        points, values = np.array(self.points, np.float64), np.array(self.values, np.float64)
        u, size = fitting.to_unit(points, self.domain), float(np.abs(values).max())
        orders = np.arange(degree + 1)
        weights = np.tile(np.maximum(orders, 1.0) ** 2, 2)
        phases = PHASE * np.outer(u, orders)
        sines, cosines = np.sin(phases), np.cos(phases)
        rows = np.vstack([np.hstack([cosines, sines]), np.hstack([-orders * sines, orders * cosines])])
        wanted = np.concatenate([values / size, np.zeros(len(u))])
        solution = size * np.linalg.lstsq(rows / weights, wanted, rcond=None)[0] / weights
        parts = (_floats(part) for part in np.split(solution, 2))
        spec = FourierSpec(function, self.domain, self.domain, 0.0, False, *parts)
        where = _at(u[:, None] + near * np.linspace(-1.0, 1.0, 9), self.domain)
        missed = float(np.max(np.abs(spec.numpy(where) - values[:, None])))
        return replace(spec, error=missed + NOISE * float(orders @ np.abs(spec.harmonics)))


def _is_number(entry: object) -> bool:
    if isinstance(entry, bool) or not isinstance(entry, int | float | np.integer | np.floating):
        return False
    return bool(-LARGEST <= entry <= LARGEST)


def _no_table(why: str) -> FitError:
    return FitError(f"a table: {why}", hint=f"2 to {MOST_POINTS} ascending points, a finite value at each")


def _half_grid(points: int, end: float) -> Array:
    """Returns the points of [0, end], both included, of a Chebyshev grid of [-end, end]."""
    count = points // 2 + 32
    return end * np.sin(0.5 * np.pi * np.arange(count + 1) / count)


def _at(u: Array, domain: Interval) -> Array:
    """Maps u to x, beyond the ends too, where f is asked for as well."""
    return np.asarray(0.5 * (domain[0] + domain[1]) + 0.5 * (domain[1] - domain[0]) * u, np.float64)


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(map(float, values))
