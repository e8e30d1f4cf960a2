"""What both parties know: formats of fixed-point numbers, bounds of values, and the rings that follow from
them.

The same model (`blocks.tensors`) runs on floats, which define its meaning, and on `program.recorder`,
which writes down its steps; both parties run these on shares, and `program.simulation` on integers, which
define the accuracy. Everything in this file is public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tacita.extras import AT_DEFAULT
from tacita.limits import Above, OneOf, Range, Span

Array = NDArray[np.float64]
Interval = tuple[float, float]

WHOLE = 512  # tokens of the longest text whose scores are one register, and whose formats are the default
GELU_FORMS = ("abs4", "abs8")  # one square less or more: errors of 2.5e-3 and 6e-4
MOST = 2.0**20  # magnitude that no interval of a model that works comes near


@dataclass(frozen=True)
class Formats:
    """Fixed-point formats that both parties use, in bits.

    ring, fraction: of tensors between blocks, residues modulo 2^ring. weight: fraction bits of a weight
    matrix.
    product_fraction: fraction bits of queries, keys and values when two shared matrices are multiplied (in
    rings just large enough, see `score_ring` and `mix_ring`: the price of such a product grows with twice the
    bits). inverse: fraction bits of a row's inverse;
    normal_ring: of its product with the mixed values, by default what one plaintext prime multiplies. gelu:
    one of `GELU_FORMS`, also for the other activations with a bump.
    table: fraction bits of a hidden embedding table.
    """

    ring: Annotated[int, Range(32, 64)] = 64
    fraction: Annotated[int, Range(8, 24)] = 18
    weight: Annotated[int, Range(6, 20)] = 14
    product_fraction: Annotated[int, Range(8, 24)] = 12
    inverse: Annotated[int, Range(8, 24)] = 16
    normal_ring: Annotated[int, Range(16, 64)] = 32
    gelu: Annotated[str, OneOf(GELU_FORMS)] = "abs4"
    table: Annotated[int, Range(8, 24)] = 16

    def for_tokens(self, tokens: int) -> Formats:
        """Returns the same with a bit more of inverses for each doubling of `WHOLE` tokens, whose weights may
        be as small as one by their number, and as many more of what they multiply."""
        more = max(0, math.ceil(math.log2(tokens / WHOLE)))
        return replace(self, inverse=self.inverse + more, normal_ring=self.normal_ring + more)

    def score_ring(self, bounds: AttentionBounds) -> int:
        """Returns the least ring for scores: one bit for their distance to the largest, two that an extension
        needs."""
        return 2 * self.product_fraction + bounds.score_range + 3

    def mix_ring(self, bounds: AttentionBounds, tokens: int) -> int:
        """Returns the least ring for numerators, which are below 1.1, times values."""
        return POWER + self.product_fraction + range_bits(0.0, 1.1 * tokens * bounds.context) + 2

    def mixed_fraction(self, bound: float) -> int:
        """Returns the fraction bits of the mixed values before they are multiplied by the inverse.

        The product, below `bound`, fills its ring but for the two bits that its extension needs. With the
        default formats and a bound of 4, whose range takes 3 bits, 32 - 2 - 3 - 16 = 11 bits.
        """
        return self.normal_ring - 2 - range_bits(0.0, bound) - self.inverse

    def gate_ring(self, bound: float) -> int:
        """Returns the least ring for products, below `bound`, of two factors at `product_fraction` bits."""
        return 2 * self.product_fraction + range_bits(0.0, bound) + 2

    def square_ring(self, interval: Interval) -> int:
        """Returns the least ring for squares of what is positive of an interval."""
        return self.gate_ring(max(1.0, interval[1]) ** 2)

    def narrow_ring(self, interval: Interval) -> int:
        """Returns the least ring for what is squared, at `product_fraction` bits."""
        return self.product_fraction + range_bits(0.0, max(1.0, interval[1])) + 2

    @property
    def gate_slack(self) -> int:
        """Bits of such a product that need not be right: its error is 2^-11 with the usual fraction."""
        return 2 * self.product_fraction - 10

    @property
    def turn_ring(self) -> int:
        """The ring in which queries and keys at `fraction` bits are turned: what a linear map leaves of its
        own."""
        return self.ring - self.weight

    def table_ring(self, bounds: EmbeddingBounds) -> int:
        """Bits in which the rows of a hidden table are shared."""
        return self.table + range_bits(0.0, bounds.entry) + 2


@dataclass(frozen=True)
class AttentionBounds:
    """What is public of attention: interval of the scaled scores, magnitude of what is mixed."""

    scores: Annotated[Interval, Span(-2.0 * MOST, MOST)]
    context: Annotated[float, Above(0.0, MOST)]

    @property
    def hiding(self) -> float:
        """What is taken from padded keys' scores so that their weights are 0, whatever the others are."""
        return math.ceil(self.scores[1] - self.scores[0] + EXP_ZERO)

    @property
    def score_range(self) -> int:
        """r with |score| < 2^r, those of padded keys included."""
        return range_bits(self.scores[0] - self.hiding, self.scores[1])


@dataclass(frozen=True)
class NormBounds:
    """What is public of a LayerNorm: magnitude of x - mean, interval of variance + epsilon, a power of two
    above |gamma|. Of a norm without mean: the same with 0 for the mean."""

    centred: Annotated[float, Above(0.0, MOST)]
    variance: Annotated[Interval, Span(0.0, MOST**2)]
    gamma: Annotated[float, Above(0.0, MOST)]


@dataclass(frozen=True)
class EmbeddingBounds:
    """What is public of a hidden embedding: a power of two above every sum of table entries."""

    entry: Annotated[float, Above(0.0, MOST, "embedding's entries")]


@dataclass(frozen=True)
class Bounds:
    """What is public of a model's values, by node: attention, functions (intervals of their arguments),
    norms, gates (magnitude of the product)."""

    attention: Mapping[str, AttentionBounds]
    functions: Mapping[str, Interval]
    norms: Mapping[str, NormBounds]
    gates: Mapping[str, float] = field(default_factory=dict, metadata=AT_DEFAULT)


BUMPED = ("gelu", "gelu_tanh", "silu")  # max(x, 0) less a bump of |x|
KINDS = (*BUMPED, "elu", "relu", "relu2", "tanh")  # of functions
TURN = 12  # fraction bits of cosines and sines
POWER = 14  # fraction bits of exponentials
CHOICE_FRACTION = 10  # at which numbers are told apart whose largest is looked for
# of a mean: bits of its modulus, fraction bits of its weights 1/n and of what is averaged
MEAN_RING, MEAN_WEIGHT, MEAN_VALUE = 46, 20, 14
EXP_ZERO = 11.0  # a score so far below its row's largest has weight 0


def range_bits(low: float, high: float) -> int:
    """Returns the least r from 1 with |x| < 2^r for x from low to high."""
    return max(1, math.floor(math.log2(max(abs(low), abs(high)))) + 1)


def choice_ring(bound: float, fraction: int = CHOICE_FRACTION) -> int:
    """Returns the bits that hold differences of numbers up to `bound` whose largest is looked for."""
    return math.ceil(math.log2(max(bound, 1.0))) + 2 + fraction


# Fixed-point numbers as integers, without the sharing: what the two parties' shares add up to.

Integers = NDArray[np.int64]
EXACT = 1 << 53  # doubles hold every integer up to here
WORD = 1 << 62
WORD_BITS, MOST_FACTOR = 64, 9e15


@dataclass(frozen=True)
class Fixed:
    """values * 2^-fraction."""

    values: Integers
    fraction: int

    @property
    def floats(self) -> Array:
        """The numbers that are meant."""
        return np.ldexp(self.values.astype(np.float64), -self.fraction)

    def at(self, fraction: int) -> Fixed:
        """Converts to so many fraction bits: fewer are rounded to the nearest, where shares round up or down
        at random, right on average."""
        gained = fraction - self.fraction
        return Fixed(self.values << gained if gained >= 0 else rounded(self.values, -gained), fraction)


@dataclass(frozen=True)
class Format:
    """A ring's bits and the fraction bits in it."""

    ring: int
    fraction: int


FACTOR_ERROR = 2.0**-14  # relative, that a rounded public factor may have


def rescaled(x: Integers, start: Format, factor: float, to: Format) -> Integers:
    """Returns x * factor in another format: times an integer, then bits off, in the fewest bits that keep the
    factor to 2^-14. Raises ValueError where no ring of up to 64 bits does."""
    for ring in (start.ring, *range(max(start.ring + 1, to.ring), WORD_BITS + 1)):
        for drop in range(ring - to.ring + 1):
            exact = math.ldexp(factor, to.fraction - start.fraction + drop)
            whole = constant(exact, 0)
            if whole and abs(whole / exact - 1.0) < FACTOR_ERROR and abs(whole) < MOST_FACTOR:
                return rounded(x * whole, drop)
    raise ValueError(f"no ring of up to 64 bits takes {start} times {factor} to {to}")


def rounded(x: Integers, bits: int) -> Integers:
    """Returns the nearest integer to x / 2^bits."""
    return (x + (1 << bits >> 1)) >> bits


def constant(value: float, fraction: int) -> int:
    """Returns a public number as an integer, halves away from zero as the engine rounds."""
    scaled = math.ldexp(value, fraction)
    return int(math.copysign(math.floor(abs(scaled) + 0.5), scaled))


def encode(x: Array, fraction: int) -> Integers:
    """Returns the nearest integers to x * 2^fraction."""
    return np.rint(x * 2.0**fraction).astype(np.int64)


def matmul(x: Integers, y: Integers) -> Integers:
    """Returns x @ y exactly, by products of doubles of few enough bits. Raises OverflowError when a sum could
    pass 2^62."""
    largest = _largest(x) * _largest(y) * x.shape[-1]
    if largest < EXACT:
        return np.asarray((x.astype(np.float64) @ y.astype(np.float64)).astype(np.int64))
    if largest >= WORD:
        raise OverflowError(f"matmul: sums up to {largest:.3g}")
    if _largest(x) < _largest(y):
        return np.asarray(np.swapaxes(matmul(np.swapaxes(y, -1, -2), np.swapaxes(x, -1, -2)), -1, -2))
    half = _largest(x).bit_length() // 2
    high, low = x >> half, x & ((1 << half) - 1)
    return (matmul(high, y) << half) + matmul(low, y)


def _largest(x: Integers) -> int:
    return int(np.abs(x).max(initial=0))
