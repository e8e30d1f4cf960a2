"""MOAI's choice of approximations, each refitted on the calibrated interval.

`exp`: (1 + x/2^r)^(2^r). `inverse`: Goldschmidt's iteration (ours has a relaxation per step; theirs, 16 plain
ones). `rsqrt`: line, Newton, Goldschmidt; the two LayerNorm forms (equations 5 and 6) only scale the
variance, which storing it by its interval does for any. `gelu`: odd polynomial behind domain extensions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tacita.approx import exp as ours
from tacita.approx import fit as fitting
from tacita.approx import inverse as goldschmidt
from tacita.approx.activations import gelu as gelu_series
from tacita.approx.exp import PowerSpec
from tacita.approx.fit import Array, Interval
from tacita.approx.rsqrt import NewtonSpec, measured_newton, newton_spec
from tacita.approx.spec import MARGIN, Spec, first, half_width, map_levels, normalise, unreachable
from tacita.slots.base import Backend, Ct
from tacita.slots.counts import series_depth, series_multiplications

inverse = goldschmidt.fit

# exp(x - shift) as (1 + (x - shift) / 2^r)^(2^r): MOAI's exponential (Algorithm 9), also NEXUS' and
# Tricycle's.
#
# r squarings and one linear step, so r + 1 levels and r products. The value is exp(z - z^2 / 2^(r+1) + ...)
# with z = x - shift: the absolute error is about 0.27 / 2^r, at z = -2, but the *relative* one grows with
# z^2, and it is by relative errors that softmax changes. One more r halves both. `exp` replaces the 1 by the
# best line for the interval (least absolute error).

FIRST, LAST = 1, 14  # squarings tried


def limit(interval: Interval, squarings: int, *, shift: float | None = None) -> PowerSpec:
    """The paper's constants: (1 + (x - shift) / 2^squarings)^(2^squarings), with its measured error."""
    domain = fitting.widen(interval, MARGIN)
    moved, power = interval[1] if shift is None else shift, 2.0**squarings
    line = (1.0 + (0.5 * (domain[0] + domain[1]) - moved) / power, half_width(domain) / power)
    spec = PowerSpec("exp", interval, domain, 0.0, False, moved, squarings, line)
    x: Array = np.linspace(*domain, 4001)
    return replace(spec, error=float(np.max(np.abs(spec.numpy(x) - ours.exact(x, moved)))))


def exp(interval: Interval, error: float, *, shift: float | None = None, max_depth: int = LAST + 1) -> Spec:
    """Fits by the fewest squarings to an absolute error, the line refitted. Errors: FitError."""
    specs = (_refit(interval, shift, squarings) for squarings in range(FIRST, max_depth))
    return first("exp (limit)", specs, interval, error, max_depth)


def _refit(interval: Interval, shift: float | None, squarings: int) -> Spec:
    """The better of the paper's line and the one of least error."""
    both = (ours.power_spec(interval, shift, 1, squarings), limit(interval, squarings, shift=shift))
    return min(both, key=lambda spec: spec.error)


# 1/sqrt(x) from a line, Newton steps and last steps in Goldschmidt's coupled form: MOAI's LayerNorm,
# refitted.
#
# MOAI's code starts from one line for every layer and takes 4 Newton and 2 Goldschmidt steps. Here the line
# is the minimax one of the calibrated interval and every step has its own (alpha, beta): y <- y (alpha - beta
# z), z = x y^2. The coupled form keeps g = x y beside h = y, so that z = g h; it has the values of Newton's.
# Its first step takes a level more than Newton's and a product less at the end.

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


def rsqrt(interval: Interval, error: float, *, max_depth: int = 2 * MOST_STEPS + 2) -> Spec:
    """Returns the spec of fewest steps with relative error <= `error`. Raises FitError when out of reach."""
    domain = fitting.widen_ratio(interval, MARGIN)
    counts = range(1, min(MOST_STEPS, (max_depth - 2) // 2) + 1)
    specs = (coupled_spec(interval, domain, max(0, n - COUPLED), min(n, COUPLED)) for n in counts)
    return first("rsqrt (coupled)", specs, interval, error, max_depth)


# GELU as x (1 + g(x)) / 2 with g a short odd polynomial behind domain extensions: MOAI's form (appendix
# F.2), refitted.
#
# g stands for tanh(sqrt(2/pi) (x + 0.044715 x^3)) or, here, for the exact erf(x / sqrt(2)): it is fitted
# directly, so that the cubic inside costs no level and its own error of 5e-4 is gone. An extension (Cheon,
# Kim, Park, "Efficient homomorphic evaluation on large intervals", 2022) maps an L times wider interval onto
# the one before,
#
#     E(w) = L w - (4/27) L^3 w^3,   |E| <= 1 on [-1, 1] for L < 1.5 sqrt(3),
#
# and does no harm where g is 1 on both; g is fitted to the inverse of all extensions near 0, where they rise.
# Each costs two levels and two products, so a wide interval takes fewer products but more levels than one
# series: 11 (21 products) against 8 (24) for 2e-2 on BERT-base's [-61, 108]. The error of g/2 is a share of
# |x|: |p - gelu| <= min(error, share |x|).

PEAK = 1.5  # E rises up to w = PEAK / L
FACTORS = (1.7, 1.9, 2.1, 2.2, 2.3, 2.4)  # L tried; from 1.5 sqrt(3) = 2.598 on E would return to 0 inside
MOST = 8  # extensions
LEVELS = (3, 4, 5, 6)  # of the odd polynomial
RISE = 2.0  # g must rise up to here, at least, before an extension turns back
GRID = 4001


@dataclass(frozen=True)
class ExtendedGeluSpec(Spec):
    """x (1 + g) / 2, g = sum_k coefficients[k] T_k of w after `extensions` steps of E with factor L; w = x /
    domain[1].

    share: largest |p - gelu| / |x| on the domain, which is symmetric. Depth: 2 an extension, the series', 1.
    """

    kind = "extended_gelu"
    share: float
    factor: float
    extensions: int
    coefficients: tuple[float, ...]

    def depth(self, input_scale: float = 1.0) -> int:
        series = series_depth(len(self.coefficients) - 1)
        return 2 * self.extensions + series + 1 + map_levels(self.domain, input_scale)

    def multiplications(self) -> int:
        return 2 * self.extensions + series_multiplications(len(self.coefficients) - 1) + 1

    def numpy(self, x: Array) -> Array:
        w = fitting.to_unit(x, self.domain)
        for _ in range(self.extensions):
            w = _extend(w, self.factor)
        g = fitting.evaluate_series(np.array(self.coefficients), w)
        return np.asarray(0.5 * np.asarray(x, dtype=np.float64) * (1.0 + g))

    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        u = w = normalise(be, ct, self.domain, input_scale)
        cubic = -4.0 / 27.0 * self.factor**3
        for _ in range(self.extensions):
            w = be.add(be.mul(be.square(w), be.mul_const(w, cubic)), be.mul_const(w, self.factor))
        g = be.add_const(be.poly(w, np.array(self.coefficients)), 1.0)
        # x is at its entry level, far above g: its factor takes no level that counts
        return be.mul(g, be.mul_const(u, 0.5 * self.domain[1] * output_scale))


def gelu(interval: Interval, error: float, *, share: float = 0.0, max_depth: int = 22) -> Spec:
    """Returns the spec of least depth, then fewest products, with |p - gelu| <= max(error, share |x|) on the
    domain. Errors: FitError."""
    specs: list[ExtendedGeluSpec] = []
    for extensions, levels in _forms(max_depth):
        specs += _specs(interval, extensions, levels)
        fair = [spec for spec in specs if _meets(spec, error, share)]
        if fair:
            return min(fair, key=lambda spec: spec.error)
    raise unreachable(
        "gelu (extended)", interval, error, min((s.error for s in specs), default=np.inf), max_depth
    )


def extended_spec(
    interval: Interval, bound: float, degree: int, extensions: int, factor: float
) -> ExtendedGeluSpec:
    """Fits a minimax odd polynomial of `degree` behind the extensions, on [-bound, bound], with its measured
    errors."""
    v, g = _target(bound, extensions, factor)
    series = fitting.remez(lambda w: np.sign(w) * np.interp(np.abs(w), v, g), (-1.0, 1.0), degree)
    coefficients = tuple(float(c) if k % 2 else 0.0 for k, c in enumerate(series.coefficients))
    domain = (-bound, bound)
    spec = ExtendedGeluSpec("gelu", interval, domain, 0.0, False, 0.0, factor, extensions, coefficients)
    x, wrong = _wrong(spec)
    return replace(spec, error=float(wrong.max()), share=float(np.max(wrong / np.abs(x))))


def _forms(max_depth: int) -> list[tuple[int, int]]:
    """Lists (extensions, levels of the polynomial) by depth, then by products."""
    every = [(e, n) for e in range(MOST + 1) for n in LEVELS if 2 * e + n + 1 <= max_depth]
    return sorted(every, key=lambda f: (2 * f[0] + f[1], 2 * f[0] + series_multiplications(2 ** f[1] - 1)))


def _specs(interval: Interval, extensions: int, levels: int) -> Iterator[ExtendedGeluSpec]:
    """Fits a spec for each factor that leaves g its rising part."""
    bound = fitting.symmetric("gelu (extended)", interval, 2.0 * MARGIN)
    for factor in FACTORS if extensions else (1.0,):
        if not extensions or bound * (PEAK / factor) / factor ** (extensions - 1) >= RISE:
            yield extended_spec(interval, bound, 2**levels - 1, extensions, factor)


def _extend(w: Array, factor: float) -> Array:
    return np.asarray(factor * w - 4.0 / 27.0 * (factor * w) ** 3)


def _target(bound: float, extensions: int, factor: float) -> tuple[Array, Array]:
    """Returns (v, erf(x / sqrt 2)) on the rising part of the extensions: v ascending from 0 to 1."""
    x = np.concatenate([[0.0], np.geomspace(1e-6 * bound, bound, GRID)])
    v = x / bound
    for _ in range(extensions):
        rising = v <= PEAK / factor
        x, v = x[rising], _extend(v[rising], factor)
    return v / v[-1], np.array([math.erf(t / math.sqrt(2.0)) for t in x])


@lru_cache(maxsize=8)
def _samples(bound: float) -> tuple[Array, Array]:
    """Returns x of both signs, dense near 0, without 0 itself, and gelu(x)."""
    half = np.concatenate([np.linspace(0.0, bound, GRID)[1:], np.linspace(0.0, min(bound, 8.0), GRID)[1:]])
    x = np.sort(np.concatenate([-half, half]))
    return x, gelu_series.exact(x)


def _wrong(spec: ExtendedGeluSpec) -> tuple[Array, Array]:
    """Returns (x, |p - gelu|) on the samples."""
    x, values = _samples(spec.domain[1])
    return x, np.abs(spec.numpy(x) - values)


def _meets(spec: ExtendedGeluSpec, error: float, share: float) -> bool:
    if spec.error <= error or spec.share <= share:
        return True
    x, wrong = _wrong(spec)
    return bool(np.all(wrong <= np.maximum(error, share * np.abs(x))))
