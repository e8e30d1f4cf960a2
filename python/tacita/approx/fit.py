"""Polynomial fits in the Chebyshev basis: interpolation, Remez.

First step of every approximation: a float64 function on a domain becomes the coefficients c of
p(x) = sum_k c_k T_k(u), where u = (2x - lo - hi) / (hi - lo) maps the domain to [-1, 1], and a *measured*
maximum error. Coefficients are always refitted, never copied from a paper. Remez follows the multi-point
exchange with a weight: the error that is made equal is weight(x) * (f(x) - p(x)), so weight = 1/|f| gives a
minimax *relative* error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from tacita.errors import TacitaError

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
Interval = tuple[float, float]

PIECE = 1 << 14  # numbers of which some arrays fit a cache of a megabyte
FEW = 8  # coefficients of each of the series that a long one is split into, at least
GRID_PER_DEGREE = 24  # an extremum found on this grid is within (pi/48)^2/2 = 0.2 % of the true one


class FitError(TacitaError):
    """A fit cannot be made: bad interval, unknown stored kind, or the stated error is out of reach."""


@dataclass(frozen=True)
class Fit:
    """Chebyshev coefficients, shape (degree + 1,), on `domain`; `error` = max of weight * |f - p| over the
    domain.
    """

    coefficients: Array
    domain: Interval
    error: float

    @property
    def floats(self) -> tuple[float, ...]:
        """The coefficients as a spec holds them."""
        return tuple(map(float, self.coefficients))

    def __call__(self, x: Array) -> Array:
        return evaluate_series(self.coefficients, to_unit(x, self.domain))


def interpolate(f: Function, domain: Interval, degree: int, weight: Function | None = None) -> Fit:
    """Interpolates f at the degree+1 Chebyshev points. Cost O(degree^2); its error is at most 1 + (2/pi)
    log(degree + 1) times the minimax one."""
    check_interval("interpolate", domain)
    nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    values = f(from_unit(nodes, domain))
    coefficients = 2.0 / (degree + 1) * chebyshev.chebvander(nodes, degree).T @ values
    coefficients[0] /= 2.0
    u = _grid(degree)
    x = from_unit(u, domain)
    residual = np.abs(f(x) - evaluate_series(coefficients, u))
    error = residual if weight is None else residual * weight(x)
    return Fit(coefficients, domain, float(error.max()))


def remez(
    f: Function, domain: Interval, degree: int, weight: Function | None = None, rounds: int = 30
) -> Fit:
    """Fits by exchange; the best of all rounds and of plain interpolation is returned, so it never fails.

    Cost: per round one dense solve of size degree + 2 and a grid evaluation (0.1 s in all at degree 255).
    """
    best = interpolate(f, domain, degree, weight)
    u = _grid(degree)
    x = from_unit(u, domain)
    values, w = f(x), np.ones_like(x) if weight is None else weight(x)
    alternating = np.cos(np.pi * np.arange(degree + 2) / (degree + 1))[::-1]
    reference = np.clip(np.searchsorted(u, alternating), 0, len(u) - 1)
    for _ in range(rounds):
        coefficients, levelled = _solve(u[reference], values[reference], w[reference], degree)
        residual = w * (values - evaluate_series(coefficients, u))
        worst = float(np.abs(residual).max())
        if worst < best.error:
            best = Fit(coefficients, domain, worst)
        if np.isnan(worst):  # of numbers that are too large; no exchange mends it
            break
        exchanged = _extrema(residual, degree + 2)
        if exchanged is None or worst <= 1.01 * abs(levelled):
            break
        reference = exchanged
    return best


def evaluate_series(coefficients: Array, u: Array) -> Array:
    """Computes sum_k c_k T_k(u), elementwise on u: by Clenshaw's rule. Of more points than fits look at, it
    is a series in T_m whose coefficients are series of a degree below m, products of matrices: up to three
    times as fast, and the same within some last bits."""
    if np.size(u) <= PIECE or len(coefficients) <= 2 * FEW:
        return in_pieces(partial(clenshaw, coefficients), u)
    split = _split(coefficients, FEW if len(coefficients) <= FEW**2 else 2 * FEW)
    return in_pieces(partial(_split_series, split), u, PIECE // 2)


def clenshaw(coefficients: Array, u: Array) -> Array:
    """Computes what `chebyshev.chebval` does, to the last bit, in four arrays where it makes three for each
    coefficient. coefficients: numbers, or rows like u."""
    if len(coefficients) < 5:
        return np.asarray(chebyshev.chebval(u, coefficients, tensor=False))
    twice, product = 2.0 * u, np.empty_like(u)
    before, last = (np.array(np.broadcast_to(c, u.shape)) for c in coefficients[-2:])
    for c in coefficients[-3::-1]:
        np.multiply(last, twice, out=product)
        np.subtract(c, last, out=last)
        before += product
        before, last = last, before
    last *= u
    before += last
    return before


def _split(coefficients: Array, m: int) -> Array:
    """Returns q with sum_k c_k T_k = sum_j T_j(T_m) sum_i q_ji T_i: T_(jm + i) is 2 T_i T_jm - T_(jm - i)."""
    q: Array = np.zeros((-(-len(coefficients) // m), m))
    q.ravel()[: len(coefficients)] = coefficients
    for j in range(len(q) - 1, 0, -1):
        q[j - 1, 1:] -= q[j, :0:-1]
        q[j, 1:] *= 2.0
    return q


def _split_series(q: Array, u: Array) -> Array:
    m = q.shape[1]
    powers = np.empty((m, len(u)))
    powers[0], powers[1] = 1.0, u
    for i in range(2, m):
        np.multiply(powers[i // 2], 2.0, out=powers[i])
        powers[i] *= powers[(i + 1) // 2]
        powers[i] -= u if i % 2 else 1.0
    return clenshaw(q @ powers, 2.0 * powers[m // 2] ** 2 - 1.0)


def in_pieces(f: Function, x: Array, size: int = PIECE) -> Array:
    """Computes an elementwise function on pieces of x that stay in a core's cache, in half the time."""
    flat = np.ravel(np.asarray(x, dtype=np.float64))
    result = np.empty_like(flat)
    for first in range(0, flat.size, size):
        result[first : first + size] = f(flat[first : first + size])
    return result.reshape(np.shape(x))


def to_unit(x: Array, domain: Interval) -> Array:
    """Map the domain affinely to [-1, 1]."""
    lo, hi = domain
    return np.asarray((2.0 * np.asarray(x, dtype=np.float64) - (lo + hi)) / (hi - lo), dtype=np.float64)


def from_unit(u: Array, domain: Interval) -> Array:
    """Inverts `to_unit`; the ends are clipped so that f is never called outside the domain by rounding."""
    lo, hi = domain
    return np.clip(0.5 * (lo + hi) + 0.5 * (hi - lo) * u, lo, hi)


def widen(interval: Interval, share: float) -> Interval:
    """Moves both ends out by share * width: the domain of functions of a signed argument."""
    check_interval("widen", interval)
    lo, hi = interval
    return lo - share * (hi - lo), hi + share * (hi - lo)


def widen_ratio(interval: Interval, share: float) -> Interval:
    """Returns [lo*(1-share), hi*(1+share)] for 0 < lo: the domain of 1/x and 1/sqrt(x)."""
    check_interval("widen_ratio", interval, positive=True)
    return interval[0] * (1.0 - share), interval[1] * (1.0 + share)


def symmetric(operation: str, interval: Interval, share: float) -> float:
    """Returns max |x| * (1 + share): half the width of the domain of a function that is fitted about 0."""
    check_interval(operation, interval)
    return max(abs(interval[0]), abs(interval[1])) * (1.0 + share)


def check_interval(operation: str, interval: Interval, *, positive: bool = False) -> None:
    """Raise FitError unless lo < hi are finite (and lo > 0 when `positive`)."""
    lo, hi = interval
    if not (np.isfinite(lo) and np.isfinite(hi) and lo < hi):
        raise FitError(
            f"{operation}: interval [{lo}, {hi}] is empty or not finite", hint="calibrate on more text"
        )
    if positive and lo <= 0.0:
        raise FitError(
            f"{operation}: interval [{lo}, {hi}] must be positive",
            hint="add the epsilon, or widen the lower end less",
        )


@lru_cache(maxsize=32)
def _grid(degree: int) -> Array:
    """Returns Chebyshev-spaced points of [-1, 1], ends included, ascending."""
    points = GRID_PER_DEGREE * (degree + 2)
    return -np.cos(np.pi * np.arange(points + 1) / points)


def _solve(u: Array, values: Array, weight: Array, degree: int) -> tuple[Array, float]:
    """Returns the coefficients whose weighted residual alternates +-E at the degree+2 reference points, and
    E."""
    signs = (-1.0) ** np.arange(degree + 2)
    matrix = np.column_stack([chebyshev.chebvander(u, degree), signs / weight])
    solution = np.asarray(np.linalg.solve(matrix, values), dtype=np.float64)
    return solution[:-1], float(solution[-1])


def _extrema(residual: Array, count: int) -> NDArray[np.intp] | None:
    """The `count` alternating extrema, one per run of equal sign, smaller ends dropped; None when there are
    fewer.
    """
    sizes, signs = np.abs(residual), residual >= 0.0
    starts = np.concatenate([[0], np.flatnonzero(signs[1:] != signs[:-1]) + 1])
    tops = np.repeat(np.maximum.reduceat(sizes, starts), np.diff(starts, append=len(sizes)))
    peaks = np.flatnonzero(sizes == tops)  # the first of each run is its peak
    peaks = peaks[np.searchsorted(peaks, starts)]
    while len(peaks) > count:
        peaks = peaks[1:] if sizes[peaks[0]] < sizes[peaks[-1]] else peaks[:-1]
    return peaks if len(peaks) == count else None
