"""How tensors cross stage boundaries: as value / bound, or centred for the approximation that reads them
next.

Every boundary tensor must lie in [-1, 1] to be bootstrapped. The input of a function with calibrated domain
[lo, hi] is stored as (x - centre) * scale with centre = (lo + hi)/2 and scale = the spec's free scale, so
that stored values fill the interval, slots without a meaning may hold anything in it without harm, and no
level goes into normalising.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.approx.iterative import GoldschmidtSpec
from tacita.approx.spec import Spec
from tacita.blocks.base import Norm
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array
from tacita.packings.base import Operation
from tacita.packings.specs import CircuitSpecs
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True)
class Stored:
    """How a tensor is stored: as (x - centre) * scale."""

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
    """Computes numerator / x * divide_factor(spec), x stored as `Stored.input_of(spec)` in ct, spec an
    approximation of 1/x.

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


# Queries and keys that are normalised head by head: a map whose squares add up to their variances, and maps
# that lack nothing but the product with 1/sqrt(variance).
#
# Both maps are made of x apart, the first in a stage of its own, so that variances or their roots may be
# refreshed between, which are few ciphertexts, and not queries and keys.

Pair = tuple[Array, Array]  # weight and bias
Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Side:
    """How queries, or keys, are normalised. dense: before they are normalised, without their mean where the
    norm takes one off. gamma, beta: of the norm, by feature of all heads. rsqrt: of variance + epsilon."""

    dense: Pair
    gamma: Array
    beta: Array
    epsilon: float
    rsqrt: Spec
    size: int

    @staticmethod
    def of(weights: Weights, dense: Pair, norm: Norm, specs: CircuitSpecs, name: str) -> Side:
        """Builds the side. name: of the norm's node."""
        heads = len(dense[1]) // norm.size
        centred = tuple(_centred(side, heads) for side in dense) if norm.centred else dense
        gamma, beta = (np.tile(side, heads) for side in weights.norm(norm))
        return Side((centred[0], centred[1]), gamma, beta, norm.epsilon, specs.norm(name).rsqrt, norm.size)

    @property
    def scaled(self) -> Pair:
        """The dense map that the root, as `root` stores it, makes the norm of, but for beta."""
        factor = self.gamma * output_bound(self.rsqrt)
        return self.dense[0] * factor[:, None], self.dense[1] * factor

    @property
    def squared(self) -> Pair:
        """The dense map whose squares, added up over a head, are its variance in stored form but for
        `offset`."""
        factor = np.sqrt(Stored.input_of(self.rsqrt).scale / self.size)
        return self.dense[0] * factor, self.dense[1] * factor

    @property
    def offset(self) -> float:
        """What is added to the squares of `squared`, summed over a head."""
        form = Stored.input_of(self.rsqrt)
        return (self.epsilon - form.centre) * form.scale

    def root(self, be: Backend, variances: Cts) -> Cts:
        """1/sqrt(variance) / its largest value. Levels: the spec's."""
        return tuple(apply(be, ct, self.rsqrt, 1.0 / output_bound(self.rsqrt)) for ct in variances)


@dataclass(frozen=True, eq=False)
class Normed:
    """Both sides of an attention."""

    queries: Side
    keys: Side

    def operations(
        self, name: str, reads: Sequence[str], squares: Callable[..., Any]
    ) -> tuple[list[Operation], tuple[str, str]]:
        """(operations, the tensors of the roots). squares: what is read -> variances of queries and of keys,
        stored for their rsqrt."""
        sides = f"{name}.queries", f"{name}.keys"
        variances, roots = (tuple(f"{side}.{part}" for side in sides) for part in ("variance", "root"))

        def invert(be: Backend, queries: Cts, keys: Cts) -> tuple[Cts, Cts]:
            return self.queries.root(be, queries), self.keys.root(be, keys)

        stages = [
            Operation.of(f"{name}.squares", reads, variances, squares),
            Operation.of(f"{name}.roots", variances, roots, invert),
        ]
        return stages, (roots[0], roots[1])


def normalised(be: Backend, xs: Sequence[Ct], roots: Sequence[Ct], betas: Sequence[Array]) -> list[Ct]:
    """Computes xs * roots + betas, ciphertext by ciphertext. One level."""
    products = [be.mul(x, root) for x, root in zip(xs, roots, strict=True)]
    return [be.add_vector(ct, v) if v.any() else ct for ct, v in zip(products, betas, strict=True)]


def _centred(side: Array, heads: int) -> Array:
    """Rows without their mean over each head."""
    grid = side.reshape(heads, -1, *side.shape[1:])
    return np.asarray((grid - grid.mean(axis=1, keepdims=True)).reshape(side.shape))
