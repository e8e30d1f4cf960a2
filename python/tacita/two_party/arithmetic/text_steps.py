"""The k largest of shared numbers keep their place, the others are moved below them; neither party learns
which ones, nor anything else of them.

The k-th largest is found two bits at a time, from the top, on shares:

    t = the least number of the range
    for every two bits, s the weight of the lower:
        t = t + s * (how many of the marks t + s, t + 2s, t + 3s are reached by at least k numbers)

One comparison of all numbers with three marks gives shared bits, whose sums are shares of counts; the counts
are compared with k, and t moves by what is linear in the bits that say so. Every comparison is exact, so t is
the k-th largest, and all that equal it stay: at least k numbers, more where some are equal. Numbers are told
apart from 2^-10 on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tacita.blocks.base import Dense
from tacita.two_party.arithmetic.base import Bounds, Formats, Unnormalised, choice_ring
from tacita.two_party.arithmetic.count import Cost, CountTensors, Shape, product_bits, shared_bits
from tacita.two_party.arithmetic.masked import AT_ONCE
from tacita.two_party.arithmetic.residues import Share, Words, reduced

DIGIT = 2  # bits of the threshold that are found at once
MOST_NOISE = 32.0  # one of Gumbel's numbers is larger with a chance of e^-32, and is cut there
NOISE_SPREAD = MOST_NOISE + 4.0  # from the least that 53 bits give, above -4


def settled(temperature: float, top_k: int, count: int) -> tuple[float, int]:
    """Returns what a temperature and a top_k come to for so many numbers: (0, 0) where the largest is taken,
    top_k 0 where all may be. The k-th is searched for where a top_k is left, 1 < k < count."""
    if temperature == 0.0 or top_k == 1:
        return 0.0, 0
    return temperature, top_k if top_k < count else 0


def keep_likeliest(party: Any, x: Share, k: int, bound: float, fall: float) -> Share:
    """Moves those of x (1, n), values up to `bound`, that are below the k-th largest down by `fall`.

    party: the engine's `TwoParty`. x: with CHOICE_FRACTION bits, in a ring that holds what comes out. k: from
    1 to n, public. Costs what `two_party.plan.writing_cost` counts, whatever the numbers are. Raises
    PeerError.
    """
    narrow = x.reduced(choice_ring(bound))
    least = _kth(party, narrow, k)
    beneath = party.negative(narrow.like(reduced(narrow.values - least, narrow.ring)).values, narrow.ring)
    down = np.uint64(math.ceil(math.ldexp(fall, x.fraction))) * party.to_arithmetic(beneath, x.ring)
    return x.like(reduced(x.values - down, x.ring))


def marks(ring: int) -> Iterator[tuple[int, list[int]]]:
    """Yields (weight, marks above the threshold) of every step of a search in so many bits, from the top: all
    bits but one, which differences take."""
    remaining = ring - 1
    while remaining:
        digit = remaining % DIGIT or DIGIT
        remaining -= digit
        yield 1 << remaining, [at << remaining for at in range(1, 1 << digit)]


def count_ring(count: int) -> int:
    """Returns the bits that hold how many of so many numbers lie below a mark, less another such number."""
    return (count - 1).bit_length() + 1


def _kth(party: Any, x: Share, k: int) -> Words:
    """Returns the k-th largest, shared in the ring of x: (1,)."""
    least = _public_share(party, -(1 << (x.ring - 2)), x.ring)
    for weight, above in marks(x.ring):
        apart = x.like(reduced(x.values - least, x.ring))
        reached = _reached(party, party.below(apart.values, x.ring, above), k, x.ring)
        least = reduced(least + np.uint64(weight) * reached, x.ring)
    return least


def _reached(party: Any, below: Sequence[Any], k: int, ring: int) -> Words:
    """Returns how many marks at least k of the numbers reach, shared: (1,). below: for each mark, the shared
    bits of the numbers below it. At least k reach a mark where at most n - k lie below it."""
    count = below[0].size
    narrow = count_ring(count)
    ones = party.to_arithmetic(np.stack([bits.reshape(-1) for bits in below]), narrow)
    more = ones.sum(axis=1, dtype=np.uint64) - _public_share(party, count - k + 1, narrow)
    enough = party.negative(np.ascontiguousarray(reduced(more, narrow)), narrow)
    total: Words = reduced(party.to_arithmetic(enough, ring).sum(keepdims=True, dtype=np.uint64), ring)
    return total


def _public_share(party: Any, value: int, ring: int) -> Words:
    """Returns a public integer as a share: the client's is all of it."""
    return reduced(np.array([value if party.is_client else 0], np.int64).view(np.uint64), ring)


# What one more token costs two parties, by the walk that they will make, and what is prepared for it.

BYTE = 8


class StepCount(CountTensors):
    """A walk of one row behind `past`, whose products are prepared. `ahead` is what preparing takes, for 32
    rows. room: tokens of the whole text."""

    def __init__(self, formats: Formats, bounds: Bounds, past: int, room: int) -> None:
        super().__init__(formats, bounds, past + 1, past)
        self._room, self.ahead = room, Cost()

    def linear(
        self, x: Shape, maps: tuple[Dense, ...], add: Shape | None = None, *, opened: bool = False
    ) -> Shape:
        """Counts the row less its mask; the server's product is plain."""
        outputs = sum(d.outputs for d in maps)
        self.cost.maps.append(maps)
        self.cost.bits += self._formats.ring * x[1]
        self.ahead.bits += product_bits(AT_ONCE, x[1], outputs)
        self.ahead.multiplications += float(AT_ONCE * x[1] * outputs)
        return 1, outputs

    def scores(self, queries: Shape, keys: Shape, name: str) -> Shape:
        """Counts query and new key less their masks."""
        ring = self._formats.score_ring(self._bounds.attention[name])
        self._count_opening(prod(queries) + keys[0] * keys[2], ring)
        self._count_preparing(queries[0], keys[0], keys[2], self._past + AT_ONCE)
        return queries[0], 1, keys[1]

    def mix(self, weights: Unnormalised[Shape], values: Shape, name: str) -> Shape:
        """Counts numerators and new value less their masks, and one product of numbers for the rows'
        inverses."""
        ring = self._formats.mix_ring(self._bounds.attention[name], self._room)
        self._count_opening(prod(weights.numerators) + values[0] * values[2], ring)
        self._count_preparing(weights.numerators[0], values[0], self._past + AT_ONCE, values[2])
        mixed = (weights.numerators[0], 1, values[2])
        self._quotient(mixed, name)
        return mixed

    def _count_opening(self, numbers: int, ring: int) -> None:
        """Counts so many numbers both ways, in whole bytes."""
        self.cost.bits += 2 * BYTE * -(-ring // BYTE) * numbers

    def _count_preparing(self, heads: int, groups: int, inner: int, outer: int) -> None:
        rows = heads // groups * AT_ONCE
        self.ahead.bits += groups * shared_bits(rows * inner, inner * outer, rows * outer)
