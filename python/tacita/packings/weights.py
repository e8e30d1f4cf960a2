"""Weights of a block in the checkpoint's orientation, for the packings' plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor

import numpy as np

from tacita.blocks.base import Attention, FeedForward
from tacita.blocks.weights import Array, Weights
from tacita.errors import PlanError
from tacita.packings.positional import Positional
from tacita.packings.specs import CircuitSpecs, FunctionSpecs
from tacita.packings.stored import Normed, Side, Stored, output_bound
from tacita.slots.base import Backend, Ct

Affine = tuple[Array, Array]  # weight and bias


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """Float matrices (outputs, inputs) and biases of one attention, and what it knows of positions.

    normed: where queries and keys are normalised; query and key are then those that the roots complete.
    """

    query: Array
    query_bias: Array
    key: Array
    key_bias: Array
    value: Array
    value_bias: Array
    output: Array
    output_bias: Array
    positional: Positional = field(default_factory=Positional)
    normed: Normed | None = None

    @staticmethod
    def of(weights: Weights, a: Attention, tokens: int, specs: CircuitSpecs, name: str) -> AttentionWeights:
        """Reads the weights that the declaration names. name: of the node, whose norms have specs of their
        own. Keys and values that heads share are repeated for each: slots hold as many heads of them as of
        queries."""
        query, key, value, output = (weights.dense(d) for d in (a.query, a.key, a.value, a.output))
        key, value = (_repeated(pair, a.key_heads, a.shared) for pair in (key, value))
        positional, normed = Positional.of(weights, a, tokens), None
        if a.normed:
            normed = Normed(
                Side.of(weights, query, a.normed[0], specs, f"{name}.queries"),
                Side.of(weights, key, a.normed[1], specs, f"{name}.keys"),
            )
            query, key = normed.queries.scaled, normed.keys.scaled
        return AttentionWeights(*query, *key, *value, *output, positional, normed)


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

    def multiply(self, be: Backend, active: Sequence[Ct], factor: Sequence[Ct]) -> tuple[Ct, ...]:
        """Multiplies both sides, ciphertext by ciphertext. One level."""
        products = [be.mul(a, b) for a, b in zip(active, factor, strict=True)]
        return tuple(products if self.times == 1 else [be.mul_int(ct, self.times) for ct in products])


@dataclass(frozen=True, eq=False)
class ForwardWeights:
    """Float matrices (outputs, inputs) and biases of one feed-forward. gate: None without one."""

    wide: Affine
    narrow: Affine
    gate: Affine | None = None

    @staticmethod
    def of(weights: Weights, f: FeedForward) -> ForwardWeights:
        """Reads the weights that the declaration names."""
        gate = weights.dense(f.gate) if f.gate else None
        return ForwardWeights(weights.dense(f.wide), weights.dense(f.narrow), gate)

    def expansions(self, entry: float | Array, form: Stored, gate: Gate | None) -> list[Affine]:
        """The argument of the function in its stored form, then with a gate the factor. entry: what the
        input's features are divided by."""
        weight, bias = self.gate or self.wide
        argument = weight * (entry * form.scale), bias * form.scale + form.offset
        if gate is None:
            return [argument]
        weight, bias = self.wide
        return [argument, (weight * (entry / gate.factor), bias / gate.factor)]


def _repeated(dense: Affine, heads: int, times: int) -> Affine:
    """The rows of each of so many heads, so many times."""
    weight, bias = dense
    rows = weight.reshape(heads, -1, weight.shape[1]), bias.reshape(heads, -1)
    matrix, vector = (np.repeat(part, times, axis=0) for part in rows)
    return matrix.reshape(-1, weight.shape[1]), vector.reshape(-1)


def summed(weight: Array, bias: Array, *, centred: bool) -> tuple[Array, Array]:
    """The dense map at the end of a block, as it is or so that the output is without its mean over features,
    which is all that a LayerNorm sees of it. Costs nothing."""
    return (weight - weight.mean(axis=0), bias - bias.mean()) if centred else (weight, bias)
