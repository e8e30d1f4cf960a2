"""What an attention knows of two tokens by their positions alone, as plaintexts for a packing's layouts.

Rotary positions turn queries and keys by plaintexts: one level, and no key switch where a packing has the two
halves of a head side by side. What is added to scores takes nothing. Which keys a query sees multiplies the
exponentials by 0 and 1: one level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.blocks.base import EVERYWHERE, Attention
from tacita.blocks.sequence import distances
from tacita.blocks.weights import Weights
from tacita.packings.arrays import Array
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class Turns:
    """Rotary angles: cos, sin of (tokens, head size / 2); feature i of a head turns with feature i + half."""

    cos: Array
    sin: Array

    @property
    def phases(self) -> Array:
        """exp(i angle): what feature i + i * (feature i + half) is multiplied by."""
        return np.asarray(self.cos + 1j * self.sin)

    @property
    def back(self) -> Turns:
        """The other way round, for a query that meets keys which stay where they are."""
        return Turns(self.cos, -self.sin)

    def of_features(self, features: Array, tokens: Array) -> tuple[Array, Array]:
        """(cosines, sines) for these features at these tokens, which broadcast; zero for feature -1."""
        number = features % (2 * self.cos.shape[1]) % self.cos.shape[1]
        there = features >= 0
        return np.where(there, self.cos[tokens, number], 0.0), np.where(there, self.sin[tokens, number], 0.0)


@dataclass(frozen=True, eq=False)
class Positional:
    """Of one attention over so many tokens. turns: rotary angles. added: (heads, queries, keys), to scaled
    scores. seen: (queries, keys) of 0 and 1. None for what it does not have."""

    turns: Turns | None = None
    added: Array | None = None
    seen: Array | None = None

    def kept_from(self, query: int) -> bool:
        """Whether a limited reach keeps any key from this query: not from the first of reversed rows."""
        return self.seen is not None and not self.seen[query].all()

    @staticmethod
    def of(weights: Weights, a: Attention, tokens: int) -> Positional:
        """By the declaration."""
        square = tokens, tokens
        turns = Turns(*distances.angles(a.rotary, (tokens, a.head_size))) if a.rotary else None
        added = weights.relative(a.relative, square) if a.relative else None
        return Positional(turns, added, distances.seen(square, a.reach) if a.reach != EVERYWHERE else None)


def crossed(weight: Array, heads: int) -> Array:
    """Rows (heads * head size, ...) of a dense map -> those by which the sines go: of each head its second
    half, negated, then its first."""
    left, right = np.split(weight.reshape(heads, -1, *weight.shape[1:]), 2, axis=1)
    return np.concatenate([-right, left], axis=1).reshape(weight.shape)


def turned(
    be: Backend, xs: Sequence[Ct], others: Sequence[Ct], cos: Sequence[Array], sin: Sequence[Array]
) -> list[Ct]:
    """xs * cos + others * sin, ciphertext by ciphertext; others: from the `crossed` rows. One level."""
    pairs = zip(xs, others, cos, sin, strict=True)
    return [be.add(be.mul_vector(x, c), be.mul_vector(y, s)) for x, y, c, s in pairs]
