"""Queries and keys that are normalised head by head: a map whose squares add up to their variances, and maps
that lack nothing but the product with 1/sqrt(variance).

Both maps are made of x apart, the first in a stage of its own, so that variances or their roots may be
refreshed between, which are few ciphertexts, and not queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.approx.spec import Spec
from tacita.blocks.base import Norm
from tacita.blocks.weights import Weights
from tacita.packings.arrays import Array
from tacita.packings.base import Operation
from tacita.packings.specs import CircuitSpecs
from tacita.packings.stored import Stored, apply, output_bound
from tacita.slots.base import Backend, Ct

Pair = tuple[Array, Array]  # weight and bias
Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Side:
    """Of queries or of keys. dense: before they are normalised, without their mean where the norm takes one
    off. gamma, beta: of the norm, by feature of all heads. rsqrt: of variance + epsilon."""

    dense: Pair
    gamma: Array
    beta: Array
    epsilon: float
    rsqrt: Spec
    size: int

    @staticmethod
    def of(weights: Weights, dense: Pair, norm: Norm, specs: CircuitSpecs, name: str) -> Side:
        """name: of the norm's node."""
        heads = len(dense[1]) // norm.size
        kept = tuple(_centred(side, heads) for side in dense) if norm.centred else dense
        gamma, beta = (np.tile(side, heads) for side in weights.norm(norm))
        return Side((kept[0], kept[1]), gamma, beta, norm.epsilon, specs.norm(name).rsqrt, norm.size)

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
        """What is added to those."""
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

        found = [
            Operation.of(f"{name}.squares", reads, variances, squares),
            Operation.of(f"{name}.roots", variances, roots, invert),
        ]
        return found, (roots[0], roots[1])


def normalised(be: Backend, xs: Sequence[Ct], roots: Sequence[Ct], betas: Sequence[Array]) -> list[Ct]:
    """xs * roots + betas, ciphertext by ciphertext. One level."""
    found = [be.mul(x, root) for x, root in zip(xs, roots, strict=True)]
    return [be.add_vector(ct, v) if v.any() else ct for ct, v in zip(found, betas, strict=True)]


def _centred(side: Array, heads: int) -> Array:
    """Rows without their mean over each head."""
    grid = side.reshape(heads, -1, *side.shape[1:])
    return np.asarray((grid - grid.mean(axis=1, keepdims=True)).reshape(side.shape))
