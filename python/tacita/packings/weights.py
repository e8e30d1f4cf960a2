"""Weights of a block in the checkpoint's orientation, for the packings' plans, and what an attention knows
besides: positions of tokens, and norms of queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Any

import numpy as np

from tacita.approx.spec import Spec, scale_by
from tacita.blocks import sequence
from tacita.blocks.base import EVERYWHERE, Attention, FeedForward, Norm
from tacita.blocks.weights import Weights
from tacita.errors import PlanError
from tacita.layouts.arrays import Array
from tacita.packings.base import Operation
from tacita.packings.encoding import Argument, Encoding, OutputSpec, WeightBias, output_bound, real
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs
from tacita.slots.base import Backend, Ct, Cts

# What an attention knows of two tokens by their positions alone, as plaintexts for a packing's layouts.
#
# Rotary positions turn queries and keys by plaintexts: one level, and no key switch where a packing has the
# two halves of a head side by side. What is added to scores takes nothing. Which keys a query sees multiplies
# the exponentials by 0 and 1: one level.


@dataclass(frozen=True, eq=False)
class RotaryAngles:
    """Rotary angles: cos, sin of (tokens, head size / 2); feature i of a head turns with feature i + half."""

    cos: Array
    sin: Array

    @property
    def phases(self) -> Array:
        """exp(i angle): what feature i + i * (feature i + half) is multiplied by."""
        return np.asarray(self.cos + 1j * self.sin)

    @property
    def back(self) -> RotaryAngles:
        """The other way round, for a query that meets keys which stay where they are."""
        return RotaryAngles(self.cos, -self.sin)

    def of_features(self, features: Array, tokens: Array) -> tuple[Array, Array]:
        """(cosines, sines) for these features at these tokens, which broadcast; zero for feature -1."""
        number = features % (2 * self.cos.shape[1]) % self.cos.shape[1]
        there = features >= 0
        return np.where(there, self.cos[tokens, number], 0.0), np.where(there, self.sin[tokens, number], 0.0)


@dataclass(frozen=True, eq=False)
class Positional:
    """What the positions of tokens give to one attention. rotary: rotary angles. added: (heads, queries,
    keys), to scaled scores. visible: (queries, keys) of 0 and 1. None for what it does not have."""

    rotary: RotaryAngles | None = None
    added: Array | None = None
    visible: Array | None = None

    @property
    def seen_first(self) -> Array | None:
        """Which keys query 0 sees, 1 and 0; None where it sees all, as the first of reversed rows does."""
        return None if self.visible is None or self.visible[0].all() else self.visible[0]

    @staticmethod
    def of(weights: Weights, a: Attention, tokens: int) -> Positional:
        """Builds what the attention's declaration names, for so many tokens."""
        square = tokens, tokens
        rotary = RotaryAngles(*sequence.angles(a.rotary, (tokens, a.head_size))) if a.rotary else None
        added = weights.relative(a.relative, square) if a.relative else None
        return Positional(
            rotary, added, sequence.reach_mask(square, a.reach) if a.reach != EVERYWHERE else None
        )


def crossed(weight: Array, heads: int) -> Array:
    """Rows (heads * head size, ...) of a dense map -> those by which the sines go: of each head its second
    half, negated, then its first."""
    left, right = np.split(weight.reshape(heads, -1, *weight.shape[1:]), 2, axis=1)
    return np.concatenate([-right, left], axis=1).reshape(weight.shape)


def turned(
    be: Backend, xs: Sequence[Ct], others: Sequence[Ct], cos: Sequence[Array], sin: Sequence[Array]
) -> list[Ct]:
    """Rotates by angles: xs * cos + others * sin. others: from the `crossed` rows. One level."""
    pairs = zip(xs, others, cos, sin, strict=True)
    return [be.add(be.mul_vector(x, c), be.mul_vector(y, s)) for x, y, c, s in pairs]


# Queries and keys that are normalised head by head: a map whose squares add up to their variances, and maps
# that lack nothing but the product with 1/sqrt(variance).
#
# Both maps are made of x apart, the first in a stage of its own, so that variances or their roots may be
# refreshed between, which are few ciphertexts, and not queries and keys.


@dataclass(frozen=True, eq=False)
class Side:
    """How queries, or keys, are normalised. dense: before they are normalised, without their mean where the
    norm takes one off. gamma, beta: of the norm, by feature of all heads. rsqrt: of variance + epsilon."""

    dense: WeightBias
    gamma: Array
    beta: Array
    epsilon: float
    rsqrt: Spec
    size: int

    @staticmethod
    def of(weights: Weights, dense: WeightBias, norm: Norm, specs: CircuitSpecs, name: str) -> Side:
        """Builds the side. name: of the norm's node."""
        heads = len(dense[1]) // norm.size
        centred = tuple(_centred(side, heads) for side in dense) if norm.centred else dense
        gamma, beta = (np.tile(side, heads) for side in weights.norm(norm))
        return Side((centred[0], centred[1]), gamma, beta, norm.epsilon, specs.norm(name).rsqrt, norm.size)

    @property
    def scaled(self) -> WeightBias:
        """The dense map that the root, as `root` stores it, makes the norm of, but for beta."""
        factor = self.gamma * output_bound(self.rsqrt)
        return self.dense[0] * factor[:, None], self.dense[1] * factor

    @property
    def squared(self) -> WeightBias:
        """The dense map whose squares add up over a head to its stored variance, but for `offset`."""
        factor = np.sqrt(Argument.of(self.rsqrt).scale / self.size)
        return self.dense[0] * factor, self.dense[1] * factor

    @property
    def offset(self) -> float:
        """What is added to the squares of `squared`, summed over a head."""
        form = Argument.of(self.rsqrt)
        return (self.epsilon - form.centre) * form.scale

    def root(self, be: Backend, variances: Cts) -> Cts:
        """1/sqrt(variance) / its largest value. Levels: the spec's."""
        return real(be, variances, self.rsqrt, 1.0 / output_bound(self.rsqrt))


def normalised(be: Backend, xs: Sequence[Ct], roots: Sequence[Ct], betas: Sequence[Array]) -> list[Ct]:
    """Computes xs * roots + betas, ciphertext by ciphertext. One level."""
    products = [be.mul(x, root) for x, root in zip(xs, roots, strict=True)]
    return [be.add_vector(ct, v) if v.any() else ct for ct, v in zip(products, betas, strict=True)]


def _centred(side: Array, heads: int) -> Array:
    grid = side.reshape(heads, -1, *side.shape[1:])
    return np.asarray((grid - grid.mean(axis=1, keepdims=True)).reshape(side.shape))


def _repeated(dense: WeightBias, heads: int, times: int) -> WeightBias:
    weight, bias = dense
    rows = weight.reshape(heads, -1, weight.shape[1]), bias.reshape(heads, -1)
    matrix, vector = (np.repeat(part, times, axis=0) for part in rows)
    return matrix.reshape(-1, weight.shape[1]), vector.reshape(-1)


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """What an attention is built from besides the layout. heads: of queries. dense: the float maps (outputs,
    inputs), and biases, to queries, keys and values, and from attended values. entry: encoding of x. output:
    of its sum.

    normed: how queries and how keys are normalised, empty where they are not; their maps are then those that
    the roots complete.
    """

    heads: int
    dense: tuple[WeightBias, WeightBias, WeightBias, WeightBias]
    specs: AttentionSpecs
    entry: Encoding
    output: OutputSpec
    positional: Positional = field(default_factory=Positional)
    normed: tuple[Side, ...] = ()

    @staticmethod
    def of(
        weights: Weights,
        a: Attention,
        tokens: int,
        specs: CircuitSpecs,
        name: str,
        entry: Encoding,
        output: OutputSpec,
    ) -> AttentionPlan:
        """Reads the weights that the declaration names. name: of the node, whose norms have specs of their
        own. Keys and values that heads share are repeated for each: slots hold as many heads of them as of
        queries."""
        query, key, value, last = (weights.dense(d) for d in (a.query, a.key, a.value, a.output))
        key, value = (_repeated(pair, a.key_heads, a.shared) for pair in (key, value))
        normed: tuple[Side, ...] = ()
        if a.normed:
            named = zip((query, key), a.normed, ("queries", "keys"), strict=True)
            normed = tuple(Side.of(weights, dense, n, specs, f"{name}.{side}") for dense, n, side in named)
            query, key = (side.scaled for side in normed)
        dense, positional = (query, key, value, last), Positional.of(weights, a, tokens)
        return AttentionPlan(a.heads, dense, specs.attention(name), entry, output, positional, normed)

    @property
    def head_size(self) -> int:
        """Features of a head."""
        return len(self.dense[0][1]) // self.heads

    def score_factor(self, share: float = 1.0) -> float:
        """Factor of queries and of keys by which their product is this share of the stored score."""
        return float(np.sqrt(share * self.specs.score_scale / np.sqrt(self.head_size)))

    def query(self, share: float = 1.0) -> WeightBias:
        """The map of stored x to queries times `score_factor`."""
        return self._scaled(self.dense[0], self.score_factor(share))

    def key(self, share: float = 1.0) -> WeightBias:
        """The map of stored x to keys times `score_factor`, less the linear part of a row estimate."""
        weight, bias = self.dense[1]
        return self._scaled((weight, self.specs.key_bias(bias)), self.score_factor(share))

    def value(self, factor: float) -> WeightBias:
        """The map of stored x to values times a factor."""
        return self._scaled(self.dense[2], factor)

    def projection(self, factor: float) -> WeightBias:
        """The map of the attended values, stored divided by a factor, to the block's sum."""
        return self.output.fold(*self.dense[3], factor)

    def squared(self) -> list[WeightBias]:
        """The maps of stored x to what `Side.squared` gives of queries and of keys."""
        return [self.entry.fold(*side.squared) for side in self.normed]

    def betas(self, share: float = 1.0) -> list[Array]:
        """What is added to normalised queries and to keys times `score_factor`."""
        return [side.beta * self.score_factor(share) for side in self.normed]

    def roots(
        self, name: str, reads: Sequence[str], squares: Callable[..., Any]
    ) -> tuple[list[Operation], tuple[str, ...]]:
        """The operations that normalise queries and keys, and the tensors of their roots; none without a
        norm. name: of the node. squares: what is read -> variances of both, stored for their rsqrt."""
        if not self.normed:
            return [], ()
        sides = f"{name}.queries", f"{name}.keys"
        variances, roots = (tuple(f"{side}.{part}" for side in sides) for part in ("variance", "root"))

        def invert(be: Backend, *both: Cts) -> list[Cts]:
            return [side.root(be, cts) for side, cts in zip(self.normed, both, strict=True)]

        stages = [
            Operation.of(f"{name}.squares", reads, variances, squares),
            Operation.of(f"{name}.roots", variances, roots, invert),
        ]
        return stages, roots

    def _scaled(self, dense: WeightBias, factor: float) -> WeightBias:
        return self.entry.fold(dense[0] * factor, dense[1] * factor)


@dataclass(frozen=True)
class Gate:
    """How the product of a gated feed-forward is stored.

    active, factor: what its two sides are divided by. product: the bound of their product, which is stored
    times the integer `times`, as near to it as one comes without a level.
    """

    active: float
    factor: float
    product: float

    @staticmethod
    def of(specs: FunctionSpecs) -> Gate:
        """Raises PlanError without the bounds of a gate."""
        if specs.factor is None or specs.product is None:
            raise PlanError("specs of a gate without its bounds", hint="calibrate this model")
        return Gate(output_bound(specs.function), specs.factor, specs.product)

    @property
    def times(self) -> int:
        """The integer factor of the stored product, at least 1."""
        return max(1, floor(self.active * self.factor / self.product))

    @property
    def scale(self) -> float:
        """What the stored product is divided by."""
        return self.active * self.factor / self.times

    def multiply(self, be: Backend, active: Sequence[Ct], factor: Sequence[Ct]) -> Cts:
        """Multiplies both sides, ciphertext by ciphertext. One level."""
        return tuple(be.mul(scale_by(be, a, self.times), b) for a, b in zip(active, factor, strict=True))


@dataclass(frozen=True, eq=False)
class ForwardPlan:
    """What a feed-forward is built from besides the layout. wide, narrow: float maps (outputs, inputs) and
    biases, to the function's argument and to the sum; factor: to what a gate multiplies by, None without one.
    entry: encoding of its input. output: of its sum."""

    wide: WeightBias
    narrow: WeightBias
    factor: WeightBias | None
    specs: FunctionSpecs
    entry: Encoding
    output: OutputSpec

    @staticmethod
    def of(
        weights: Weights, f: FeedForward, specs: FunctionSpecs, entry: Encoding, output: OutputSpec
    ) -> ForwardPlan:
        """Reads the weights that the declaration names."""
        wide, narrow = weights.dense(f.wide), weights.dense(f.narrow)
        if f.gate is None:
            return ForwardPlan(wide, narrow, None, specs, entry, output)
        return ForwardPlan(weights.dense(f.gate), narrow, wide, specs, entry, output)

    @property
    def inner(self) -> int:
        """Features between the maps."""
        return int(self.narrow[0].shape[1])

    @property
    def gate(self) -> Gate | None:
        """How a gate's product is stored. Raises PlanError for specs without its bounds."""
        return Gate.of(self.specs) if self.factor else None

    def expansions(self, argument: Argument) -> list[WeightBias]:
        """The maps of the stored input: to the function's argument as it is stored, then with a gate to the
        factor."""
        inner = argument.store(*self.entry.fold(*self.wide))
        if self.factor is None or (gate := self.gate) is None:
            return [inner]
        weight, bias = self.entry.fold(*self.factor)
        return [inner, (weight / gate.factor, bias / gate.factor)]

    @property
    def contraction(self) -> WeightBias:
        """The map of the stored activation, or of a gate's product, to the block's sum."""
        gate = self.gate
        return self.output.fold(*self.narrow, gate.scale if gate else output_bound(self.specs.function))
