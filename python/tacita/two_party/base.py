"""The contract of the two-party mode: operations on tensors that two parties share.

The same model runs on three interpreters. `plain` computes in float64 and defines the meaning; `fixed` computes on
integers with the formats, roundings and polynomials of the protocols and defines the accuracy; `shares` is one party of the
real thing. Tensors are opaque to the model: shape (..., rows, columns), where plain and fixed take any number of texts
in front and shares holds one. Everything in this file is public: parameters of a model are in `Dense` and `Norm`, which hold arrays at
the party that owns the model and None at the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacita.errors import PlanError

Array = NDArray[np.float64]
Interval = tuple[float, float]
T = TypeVar("T")  # a tensor of the interpreter
W = TypeVar("W")  # attention weights before normalisation, of the interpreter


@dataclass(frozen=True)
class Formats:
    """Fixed-point formats that both parties use, in bits.

    ring, fraction: of tensors between blocks, residues modulo 2^ring. weight: fraction bits of a weight matrix.
    product_fraction: fraction bits of queries, keys and values when two shared matrices are multiplied (in rings just large enough,
    see `score_ring` and `mix_ring`: the price of such a product grows with twice the bits). inverse: fraction bits of a row's inverse;
    normal_ring: of its product with the mixed values, by default what one plaintext prime multiplies. gelu: one of `GELU_FORMS`.
    table: fraction bits of a hidden embedding table.
    """

    ring: int = 64
    fraction: int = 18
    weight: int = 12
    product_fraction: int = 12
    inverse: int = 16
    normal_ring: int = 32
    gelu: str = "abs4"
    table: int = 16


@dataclass(frozen=True)
class Dense:
    """x -> x W^T + b. weight: (outputs, inputs), bias: (outputs,); None at the client."""

    name: str
    inputs: int
    outputs: int
    weight: Array | None
    bias: Array | None

    @cached_property
    def integers(self) -> dict[int, NDArray[np.int64]]:
        """W^T (inputs, outputs) by fraction bits, those asked for (`integers.weight_integers`): made once, not for every text."""
        return {}


@dataclass(frozen=True)
class AttentionBounds:
    """What is public of attention: interval of the scaled scores, magnitude of what is mixed."""

    scores: Interval
    context: float


@dataclass(frozen=True)
class NormBounds:
    """What is public of a LayerNorm: magnitude of x - mean, interval of variance + epsilon, a power of two above |gamma|."""

    centred: float
    variance: Interval
    gamma: float


@dataclass(frozen=True)
class EmbeddingBounds:
    """What is public of a hidden embedding: a power of two above every sum of table entries; None for no norm after it."""

    entry: float
    norm: NormBounds | None


@dataclass(frozen=True)
class Norm:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis.

    bounds: public. gamma, beta: (size,), None at the client.
    """

    name: str
    size: int
    epsilon: float
    bounds: NormBounds
    gamma: Array | None
    beta: Array | None


KINDS = ("gelu", "relu")  # of activations
GELU_FORMS = ("abs4", "abs8")  # one square less or more: errors of 2.5e-3 and 6e-4
POWER = 14  # fraction bits of exponentials
MEAN_RING, MEAN_WEIGHT, MEAN_VALUE = (
    46,
    20,
    14,
)  # of a mean: modulus, fraction bits of its weights 1/n and of what is averaged
EXP_ZERO = 11.0  # a score so far below its row's largest has weight 0


def unknown_kind(kind: str) -> PlanError:
    """What is raised for an activation that is not one of `KINDS`."""
    return PlanError(f"two-party mode: activation {kind!r}", hint=f"supported: {', '.join(KINDS)}")


def hiding(interval: Interval) -> float:
    """What is taken from the scores of padded keys so that their weights are 0, whatever the others are."""
    return math.ceil(interval[1] - interval[0] + EXP_ZERO)


def range_bits(low: float, high: float) -> int:
    """The least r from 1 with |x| < 2^r for x from low to high."""
    return max(1, math.floor(math.log2(max(abs(low), abs(high)))) + 1)


def score_range(bounds: AttentionBounds) -> int:
    """r with |score| < 2^r, those of padded keys included."""
    low, high = bounds.scores
    return range_bits(low - hiding(bounds.scores), high)


def score_ring(formats: Formats, bounds: AttentionBounds) -> int:
    """The least ring for scores: one bit for their distance to the largest, two that an extension needs."""
    return 2 * formats.product_fraction + score_range(bounds) + 3


def table_ring(formats: Formats, bounds: EmbeddingBounds) -> int:
    """Bits in which the rows of a hidden table are shared."""
    return formats.table + range_bits(0.0, bounds.entry) + 2


def mix_ring(formats: Formats, bounds: AttentionBounds, tokens: int) -> int:
    """The least ring for numerators, which are below 1.1, times values."""
    return POWER + formats.product_fraction + range_bits(0.0, 1.1 * tokens * bounds.context) + 2


def mixed_fraction(formats: Formats, bound: float) -> int:
    """Fraction bits of the mixed values before they are multiplied by the inverse.

    The product, below `bound`, fills its ring but for
    the two bits that its extension needs.
    """
    return formats.normal_ring - 2 - range_bits(0.0, bound) - formats.inverse


@dataclass(frozen=True)
class Weights(Generic[T]):
    """Unnormalised attention: numerators exp(score - largest), 0 for padding, and the inverse of each row's sum (..., rows, 1)."""

    numerators: T
    inverse: T


class Operations(Protocol[T, W]):
    """Tensor operations. Costs and errors of each are those of the interpreter; shapes are the same for all."""

    def stage(self, name: str) -> None:
        """Says that this step of the model begins (progress, report)."""

    def linear(self, x: T, dense: Dense, add: T | None = None, *, opened: bool = False) -> T:
        """(..., rows, inputs) -> (..., rows, outputs), plus `add` of the result's shape. opened: the client learns the result next."""

    def plus(self, x: T, rows: Array | None) -> T:
        """x plus rows of its shape that the party with the model knows."""

    def columns(self, x: T, parts: int) -> tuple[T, ...]:
        """The tensor cut into `parts` equal blocks of columns."""

    def rows(self, x: T, count: int) -> T:
        """The first rows."""

    def heads(self, x: T, count: int) -> T:
        """(..., rows, count * d) -> (..., count, rows, d)."""

    def merge(self, x: T) -> T:
        """The inverse of `heads`."""

    def scores(self, queries: T, keys: T, bounds: AttentionBounds) -> T:
        """(..., heads, rows, d) and (..., heads, tokens, d) -> (..., heads, rows, tokens); scaled by the queries' weights.

        Outside the bounds this and the next two give wrong results.
        """

    def softmax(self, scores: T, bounds: AttentionBounds) -> W:
        """Weights of the real keys."""

    def mix(self, weights: W, values: T, bounds: AttentionBounds) -> T:
        """Softmax times values: (..., heads, rows, d)."""

    def activation(self, x: T, kind: str, interval: Interval) -> T:
        """One of `KINDS`, element by element. interval: of x; outside it the result may be wrong. Raises PlanError for another."""

    def norm(self, x: T, norm: Norm) -> T:
        """LayerNorm of each row."""

    def tanh(self, x: T, interval: Interval) -> T:
        """tanh, element by element."""

    def mean(self, x: T, *, opened: bool = False) -> T:
        """Mean of the rows of real tokens: (..., 1, columns). opened: the client learns the result next."""
