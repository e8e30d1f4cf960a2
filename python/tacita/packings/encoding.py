"""How tensors cross stage boundaries: as value / bound, or centred for the approximation that reads them
next.

Every boundary tensor must lie in [-1, 1] to be bootstrapped. The argument of a function with calibrated
domain [lo, hi] is stored as (x - centre) / scale with centre = (lo + hi)/2 and 1/scale = the spec's free
scale, so that stored values fill the interval, slots without a meaning may hold anything in it without harm,
and no level goes into normalising.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacita.approx.inverse import GoldschmidtSpec
from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.layouts.rotations import doubled_real
from tacita.slots.base import Backend, Ct, Cts

WeightBias = tuple[Array, Array]  # weight (outputs, inputs) and bias
# Row sums are added up so many times as large as they are stored: each rotation on the way leaves noise, and
# a row whose sum is small is divided by little.
SUMMED = 16.0


@dataclass(frozen=True, eq=False)
class Encoding:
    """What stored numbers mean: value = scale * stored + offset; numbers for all features, or (features,).
    Where a map of the stored numbers gives the values, scale is its matrix (features, stored).

    An example: values in [-6, 2] stored in [-1, 1] have scale 4 and offset -2.
    """

    scale: float | Array
    offset: float | Array = 0.0

    @property
    def even(self) -> bool:
        """Whether every feature is stored in the same way, with nothing added."""
        return bool(np.all(self.scale == np.ravel(self.scale)[0])) and not np.any(self.offset)

    @property
    def mapped(self) -> bool:
        """Whether scale is a matrix."""
        return np.ndim(self.scale) == 2

    @property
    def bound(self) -> float:
        """What all features are divided by, of an encoding that is `even`."""
        return float(np.ravel(self.scale)[0])

    def value(self, stored: Array) -> Array:
        """Decodes stored numbers (..., features)."""
        scaled = stored @ np.transpose(self.scale) if self.mapped else stored * self.scale
        return np.asarray(scaled + self.offset)

    def fold(self, weight: Array, bias: Array) -> WeightBias:
        """A dense map of values as one of stored numbers: weight @ value + bias."""
        shift = weight @ np.asarray(self.offset) if np.any(self.offset) else 0.0
        return weight @ self.scale if self.mapped else weight * self.scale, bias + shift


@dataclass(frozen=True)
class Argument:
    """How the argument of a function is stored: as (x - centre) * scale."""

    scale: float
    centre: float = 0.0

    @staticmethod
    def of(spec: Spec) -> Argument:
        """The form in which `apply` expects the argument of spec."""
        return Argument(spec.free_scale(), 0.5 * (spec.domain[0] + spec.domain[1]))

    @property
    def offset(self) -> float:
        """What is added to x * scale."""
        return -self.centre * self.scale

    def store(self, weight: Array, bias: Array) -> WeightBias:
        """A dense map to values as one to what is stored of them."""
        return weight * self.scale, bias * self.scale + self.offset


@dataclass(frozen=True, eq=False)
class OutputSpec:
    """How residual + block is stored: value / exit.

    residual: encoding of the residual's stored numbers. centred: without its mean over features, which is all
    that a LayerNorm sees of it. complete: as a tensor is stored for its readers; else it lacks what a norm
    gives to its result by itself. zero_mean: whether the residual has no mean already.
    """

    exit: float
    residual: Encoding
    centred: bool
    complete: bool = True
    zero_mean: bool = False

    @property
    def centres_residual(self) -> bool:
        """Whether the mean of the residual has to be taken off."""
        return self.centred and not self.zero_mean

    @property
    def back(self) -> float:
        """Factor of the stored residual in the stored sum, where its encoding is even."""
        return self.residual.bound / self.exit

    def fold(self, weight: Array, bias: Array, factor: float = 1.0) -> WeightBias:
        """A block's last map -> that of what it reads, stored as value / factor, with the offset of the whole
        sum: what the residual's encoding adds is in its bias."""
        added = bias + self.residual.offset
        return without_mean(weight * (factor / self.exit), added / self.exit, centred=self.centred)

    def fold_residual(self, size: int) -> Array:
        """(size, stored): the matrix on the residual's stored numbers."""
        whole = without_mean(np.eye(size), np.zeros(size), centred=self.centres_residual)
        return Encoding(self.residual.scale / self.exit).fold(*whole)[0]


def without_mean(weight: Array, bias: Array, *, centred: bool) -> WeightBias:
    """A block's last map, as it is or without its output's mean, which a LayerNorm drops. Costs nothing."""
    return (weight - weight.mean(axis=0), bias - bias.mean()) if centred else (weight, bias)


def apply(be: Backend, ct: Ct, spec: Spec, output_scale: float = 1.0) -> Ct:
    """Stored as `Argument.of(spec)` -> f(x) * output_scale, spec.depth(free scale) levels lower."""
    return apply_all(be, (ct,), spec, output_scale)[0]


def apply_all(be: Backend, cts: Cts, spec: Spec, output_scale: float = 1.0) -> Cts:
    """`apply` of each; a spec that refreshes takes two of them at once. Real values."""
    form = Argument.of(spec)
    moved = [be.add_const(ct, -form.offset) for ct in cts] if form.offset else cts
    return tuple(spec.evaluate_all(be, moved, form.scale, output_scale))


def divide(be: Backend, numerator: Ct, ct: Ct, spec: Spec) -> Ct:
    """Computes numerator / x * divide_factor(spec), x stored as `Argument.of(spec)` in ct, spec an
    approximation of 1/x.

    Goldschmidt's iteration takes the numerator in place of its first 1: the spec's levels below both and no
    more.
    """
    if not isinstance(spec, GoldschmidtSpec):
        return be.mul(numerator, apply_unit(be, ct, spec))
    form = Argument.of(spec)
    moved = be.add_const(ct, -form.offset) if form.offset else ct
    return spec.divide(be, [numerator], moved, form.scale)[0]


def apply_unit(be: Backend, ct: Ct, spec: Spec) -> Ct:
    """`apply`, divided by the function's largest value: f(x) / `output_bound`(spec), in [-1, 1]."""
    return apply(be, ct, spec, 1.0 / output_bound(spec))


def real(be: Backend, cts: Cts, spec: Spec, output_scale: float) -> Cts:
    """`apply` of each without an imaginary part, for a result that crosses a stage boundary: a steep function
    raises the noise there too, and a ciphertext refreshed beside it would have it (decision 132). One
    conjugation more."""
    return tuple(doubled_real(be, apply(be, ct, spec, 0.5 * output_scale)) for ct in cts)


def divide_factor(spec: Spec) -> float:
    """The constant that `divide` leaves in its result."""
    if isinstance(spec, GoldschmidtSpec):
        return spec.divide_factor(spec.free_scale())
    return 1.0 / output_bound(spec)


@lru_cache(maxsize=64)
def output_bound(spec: Spec) -> float:
    """Largest |f| that the approximation takes on its domain (sampled)."""
    return float(np.max(np.abs(spec.numpy(np.linspace(*spec.domain, 4001)))))
