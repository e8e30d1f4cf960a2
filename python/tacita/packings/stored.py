"""How tensors cross stage boundaries: as value / bound, or centred for the approximation that reads them
next.

Every boundary tensor must lie in [-1, 1] to be bootstrapped. The input of a function with calibrated domain
[lo, hi] is stored as (x - centre) * scale with centre = (lo + hi)/2 and scale = the spec's free scale, so
that stored values fill the interval, slots without a meaning may hold anything in it without harm, and no
level goes into normalising.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacita.approx.iterative import GoldschmidtSpec
from tacita.approx.spec import Spec
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True)
class Stored:
    """stored = (x - centre) * scale."""

    scale: float
    centre: float = 0.0

    @staticmethod
    def bounded(bound: float) -> Stored:
        """x / bound."""
        return Stored(1.0 / bound)

    @staticmethod
    def input_of(spec: Spec) -> Stored:
        """The form in which `apply` expects the input of spec."""
        return Stored(spec.free_scale(), 0.5 * (spec.domain[0] + spec.domain[1]))

    @property
    def offset(self) -> float:
        """What is added to x * scale."""
        return -self.centre * self.scale


def reach(spec: Spec) -> float:
    """Largest stored magnitude of the spec's input."""
    return 0.5 * (spec.domain[1] - spec.domain[0]) * spec.free_scale()


def apply(be: Backend, ct: Ct, spec: Spec, output_scale: float = 1.0) -> Ct:
    """Ciphertext stored as `Stored.input_of(spec)` -> f(x) * output_scale, spec.depth(free scale) levels
    lower."""
    return apply_all(be, (ct,), spec, output_scale)[0]


def apply_all(be: Backend, cts: tuple[Ct, ...], spec: Spec, output_scale: float = 1.0) -> tuple[Ct, ...]:
    """`apply` of each; a spec that refreshes takes two of them at once. Real values."""
    form = Stored.input_of(spec)
    moved = [be.add_const(ct, -form.offset) for ct in cts] if form.offset else cts
    return tuple(spec.evaluate_all(be, moved, form.scale, output_scale))


def divide(be: Backend, numerator: Ct, ct: Ct, spec: Spec) -> Ct:
    """numerator / x * divide_factor(spec), x stored as `Stored.input_of(spec)` in ct, spec an approximation
    of 1/x.

    Goldschmidt's iteration takes the numerator in place of its first 1: the spec's levels below both and no
    more.
    """
    if not isinstance(spec, GoldschmidtSpec):
        return be.mul(numerator, inverted(be, ct, spec))
    form = Stored.input_of(spec)
    moved = be.add_const(ct, -form.offset) if form.offset else ct
    return spec.divide(be, [numerator], moved, form.scale)[0]


def inverted(be: Backend, ct: Ct, spec: Spec) -> Ct:
    """What `divide` multiplies the numerator by, for a spec that is no iteration: divide_factor(spec) / x."""
    return apply(be, ct, spec, 1.0 / output_bound(spec))


def divide_factor(spec: Spec) -> float:
    """The constant that `divide` leaves in its result."""
    if isinstance(spec, GoldschmidtSpec):
        return spec.divide_factor(spec.free_scale())
    return 1.0 / output_bound(spec)


def output_bound(spec: Spec) -> float:
    """Largest |f| that the approximation takes on its domain (sampled)."""
    return float(np.max(np.abs(spec.numpy(np.linspace(*spec.domain, 4001)))))
