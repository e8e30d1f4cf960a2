"""Which of two numbers is larger: 1 where their difference is positive, 0 where it is negative.

No polynomial jumps, so there is a *gap*: differences of at least the gap are told apart to the stated error,
nearer ones give something between, 1/2 where both are equal. Two steps (a composite of minimax polynomials,
Lee, Lee, Lee, Kim, No, ePrint 2020/834; the first one here is trigonometric):

    step      a refresh (`approx.fourier`): the odd harmonics of a square wave, sign(u) within 0.2 to 0.5
    sharpen   an odd polynomial that takes 1 - error ... 1 + error to 1, as 0 and 1

The refresh comes for nothing where a bootstrap is due anyway. As an odd polynomial of s = sin(PHASE u) the
step is the minimax approximation of the sign on [sin(PHASE gap), 1]; both are found by `fit.remez` for
1/sqrt(x) at x = s^2. So the step's error is about exp(-harmonics * PHASE * gap): a gap of half the size takes
twice the harmonics, one level. Beyond u = 1 it stays the sign up to 1.45.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, FitError
from tacita.approx.fourier import FourierSpec
from tacita.approx.poly import ChebyshevSpec
from tacita.approx.spec import Spec, from_dict
from tacita.slots.bootstraps import PHASE
from tacita.slots.counts import series_depth

HARMONICS = tuple(2**levels - 1 for levels in range(4, 10))
DEGREES = (3, 5, 7, 9, 11, 13, 15, 19, 23, 31)
MOST_STEP = 0.6  # error of a step that is still worth sharpening
SLACK = 1.01  # an error between the points of a grid is at most so much above that on them
LEAST_GAP, MOST_GAP = 2.0**-12, 0.4  # as shares of the range of differences


@dataclass(frozen=True)
class Comparison:
    """A comparison of u in [-1, 1] with 0: `sharpen` after `step` is 1 within its error for u >= gap and 0
    for u <= -gap."""

    gap: float
    step: FourierSpec
    sharpen: ChebyshevSpec

    @property
    def error(self) -> float:
        """The error beyond the gap."""
        return self.sharpen.error

    def numpy(self, u: Array) -> Array:
        """Computes both in turn, elementwise."""
        return self.sharpen.numpy(self.step.numpy(u))

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON data; `from_plain` gives back an equal one."""
        return {"gap": self.gap, "step": self.step.to_dict(), "sharpen": self.sharpen.to_dict()}

    @staticmethod
    def from_plain(data: Any) -> Comparison:
        """Raises FitError for what is none: other fields, or specs of another kind."""
        if not isinstance(data, dict) or data.keys() != {"gap", "step", "sharpen"}:
            raise FitError("comparison: other fields than gap, step and sharpen", hint="make the plan again")
        step, sharpen, gap = from_dict(data["step"]), from_dict(data["sharpen"]), data["gap"]
        fitted = isinstance(step, FourierSpec) and isinstance(sharpen, ChebyshevSpec)
        if not fitted or isinstance(gap, bool) or not isinstance(gap, int | float):
            raise FitError("comparison: its parts are of other kinds", hint="make the plan again")
        return Comparison(float(gap), cast(FourierSpec, step), cast(ChebyshevSpec, sharpen))


def share(gap: float, bound: float) -> float:
    """Converts a gap between two numbers up to `bound` into a share of the range of their differences."""
    return gap / (2.0 * bound)


@lru_cache(maxsize=16)
def fit(gap: float, error: float) -> Comparison:
    """Returns the comparison of least depth, then fewest harmonics, with at most `error` beyond the gap.
    Raises FitError where no step that there is can tell so small a gap."""
    if not LEAST_GAP <= gap <= MOST_GAP:
        message = (
            f"comparison: a gap of {gap:.3g} of the range, from {LEAST_GAP:.3g} to {MOST_GAP:.3g} can be"
        )
        raise FitError(message, hint="state a larger gap")
    cheapest = min(_candidates(gap, error), key=levels, default=None)
    if cheapest is None:
        message = f"comparison: no step of {HARMONICS[-1]} harmonics tells a gap of {gap:.3g} of the range"
        raise FitError(message, hint="state a larger gap")
    return cheapest


def levels(comparison: Comparison) -> int:
    """Counts the levels of the refresh and of what follows it, from one level above a fresh ciphertext."""
    return series_depth(len(comparison.step.sines) - 1) + comparison.sharpen.depth(
        comparison.sharpen.free_scale()
    )


def _candidates(gap: float, error: float) -> Iterator[Comparison]:
    """Yields a comparison for each step that comes near enough, with the least polynomial behind it."""
    for harmonics in HARMONICS:
        step = step_spec(gap, harmonics)
        if step.error > MOST_STEP:
            continue
        polynomials = (sharpen_spec(step.error, degree) for degree in DEGREES)
        if sharpen := next((one for one in polynomials if one.error <= error), None):
            yield Comparison(gap, step, sharpen)


@lru_cache(maxsize=64)
def step_spec(gap: float, harmonics: int) -> FourierSpec:
    """Approximates sign(u) by odd harmonics; error: for |u| >= gap, the lower end of its interval."""
    odd, error = _odd(float(np.sin(PHASE * gap)), 1.0, harmonics)
    # T_(2j+1)(sin t) = (-1)^j sin((2j + 1) t)
    signs = np.where(np.arange(harmonics + 1) % 4 == 3, -1.0, 1.0)
    sines, nothing = tuple(map(float, odd * signs)), (0.0,) * (harmonics + 1)
    spec = FourierSpec("step", (gap, 1.0), (-1.0, 1.0), error, False, nothing, sines)
    # many points of each oscillation; those at the gap are the worst
    u = np.concatenate([np.linspace(gap, 1.0, 64 * harmonics), np.geomspace(gap, 1.0, 4096)])
    return replace(spec, error=float(np.max(np.abs(spec.numpy(u) - 1.0))))


def sharpen_spec(error: float, degree: int) -> ChebyshevSpec:
    """Returns 1/2 + p/2 for the odd p nearest to 1 on [1 - error, 1 + error]."""
    odd, error_left = _odd(1.0 - error, 1.0 + error, degree)
    halves, domain = 0.5 * odd, (-1.0 - error, 1.0 + error)
    halves[0] = 0.5
    return ChebyshevSpec(
        "sharpen", domain, domain, SLACK * 0.5 * error_left, False, tuple(map(float, halves))
    )


def _odd(low: float, high: float, degree: int) -> tuple[Array, float]:
    """The odd polynomial nearest to 1 on [low, high]: its Chebyshev coefficients on [-high, high], and its
    error."""
    root = fitting.remez(lambda x: 1.0 / np.sqrt(x), (low**2, high**2), (degree - 1) // 2, weight=np.sqrt)
    whole = fitting.interpolate(lambda s: high * s * root((high * s) ** 2), (-1.0, 1.0), degree)
    coefficients = whole.coefficients
    coefficients[::2] = 0.0
    return coefficients, root.error


SMOOTH = (35.0, -84.0, 70.0, -20.0)  # of x^4 ... x^7: 0 at 0 and 1 at 1, each with three derivatives


def smooth_spec() -> Spec:
    """0 near 0, 1 near 1: an error of e there becomes one of 35 e^4. Symmetric about 1/2, so two shares that
    add up to 1 still do. Three levels. Values in [-1, 1]; just above 1 it is the same polynomial."""
    series = np.polynomial.Polynomial([0.0] * 4 + list(SMOOTH)).convert(kind=np.polynomial.Chebyshev)
    domain = (-1.0, 1.0)
    return ChebyshevSpec("smooth", domain, domain, 0.0, False, tuple(map(float, series.coef)))
