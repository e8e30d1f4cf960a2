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
from typing import Any

import numpy as np

from tacita.two_party.arithmetic.base import CHOICE_FRACTION, choice_ring
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


def largest(party: Any, x: Share, bound: float) -> Share:
    """Maps x (1, n), values up to `bound`, to (1,): the number of the largest, of equal ones the first.
    party: the engine's `TwoParty`. Raises PeerError."""
    ring, places = choice_ring(bound), max(1, (x.values.shape[-1] - 1).bit_length())
    low = x.scaled(CHOICE_FRACTION, client=bool(party.is_client)).reduced(ring)
    _, index = party.argmax_rows(np.ascontiguousarray(low.values), ring, places)
    return Share(index.reshape(-1), places, 0)


def keep_likeliest(party: Any, x: Share, k: int, bound: float, fall: float) -> Share:
    """Moves those of x (1, n), values up to `bound`, that are below the k-th largest down by `fall`.

    party: the engine's `TwoParty`. x: with CHOICE_FRACTION bits, in a ring that holds what comes out. k: from
    1 to n, public. Costs what `two_party.plan.generation_cost` counts, whatever the numbers are. Raises
    PeerError.
    """
    beneath = _beneath(party, x.reduced(choice_ring(bound)), k)
    down = np.uint64(math.ceil(math.ldexp(fall, x.fraction))) * party.to_arithmetic(beneath, x.ring)
    return x.like(reduced(x.values - down, x.ring))


def nearest(party: Any, x: Share, k: int) -> Words:
    """Keeps those of x (1, n) that are not below the k-th largest, and puts `none_of(ring)` in place of the
    others: shares of (1, n) in the same ring. party: the engine's `TwoParty`. x: |values| < 2^(ring - 2) as
    integers. k: from 1 to n, public. Costs what `cost` counts of a step `nearest`. Raises PeerError."""
    above = x.like(reduced(x.values - _public_share(party, none_of(x.ring), x.ring), x.ring)).values
    left = above - party.select(_beneath(party, x, k), above, x.ring)
    return reduced(left + _public_share(party, none_of(x.ring), x.ring), x.ring)


def none_of(ring: int) -> int:
    """Returns the least integer of a ring, which stands for a number that is not among the nearest."""
    return -(1 << (ring - 1))


def _beneath(party: Any, x: Share, k: int) -> Any:
    """Returns shared bits (1, n): which of x are below the k-th largest."""
    apart = x.like(reduced(x.values - _kth(party, x, k), x.ring))
    return party.negative(apart.values, x.ring)


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
