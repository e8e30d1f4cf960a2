"""Bytes that operations of the engine move to and from memory, counted; and how many a plain copy moves.

The unit is a limb: N residues of 8 bytes. What a loop reads or writes as a whole limb is counted once, what
it does while a limb lies in the caches is not: transforms, and products with what was just made. So a count
is of what today's loops ask the memory for (`crates/rlwe/src/keyswitch/`), be caches and prefetches what they
may. L: limbs of the operands, k: special primes; k + 2 limbs are a digit. Conversions read their sources
once for a group of four targets.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from tacita.resources import in_threads
from tacita.schemes.operation_prices import best_ms
from tacita.slots.counts import poly_counts

RESIDUE = 8
PACKED = 50 / 64  # what a residue of a server's key takes beside a double
TOGETHER = 4  # targets of a conversion that read its sources together
COPY_BYTES = 1 << 28  # far more than caches hold
BOTTOM, EVAL_MOD, TO_SLOTS = 3, 9, 2  # limbs of: level 0, modular reduction, coefficients to slots
SERIES_DEGREE, DOUBLINGS = 28, 3  # `crates/ckks/src/bootstrap/eval_mod.rs`


@dataclass(frozen=True)
class Ring:
    """n: ring degree. special: k. top: limbs of the highest level that is not bootstrapping's."""

    n: int
    special: int
    top: int

    def bytes(self, limbs: int) -> int:
        """Returns the bytes of so many limbs."""
        return limbs * self.n * RESIDUE


def groups(limbs: int) -> int:
    """How often a conversion to so many targets reads its sources."""
    return ceil(limbs / TOGETHER)


def key(limbs: int, k: int) -> int:
    """What a switch reads of a key, both halves of every digit; they lie packed, in at most 50 bits of 64."""
    return ceil(2 * ceil(limbs / (k + 2)) * (limbs + k) * PACKED)


def sources(limbs: int) -> int:
    """Limbs read and written where the digits of L limbs are brought into coefficient form."""
    return 2 * limbs


def division(keep: int, by: int) -> int:
    """Counts limbs that the division of one polynomial by so many primes moves: sources written, read for
    their overflow, and read with it by every group of the limbs that stay."""
    return by + (by + 1) + groups(keep) * (by + 1)


def switch(limbs: int, k: int, by: int) -> int:
    """A whole key switch, divided by k primes or by k + 1 (`by`), without what is added in the end: digits,
    their conversions, each digit's own limbs, the key, two divisions, the result."""
    keep = limbs + k - by
    read = (groups(by) + groups(keep)) * limbs + limbs + key(limbs, k)
    return sources(limbs) + read + 2 * division(keep, by) + 2 * keep


def rotate(limbs: int, k: int) -> int:
    """A switch, and c0 added to it."""
    return switch(limbs, k, k) + limbs


def relinearise(limbs: int, k: int, products: int = 1, multiples: int = 0) -> int:
    """A sum of products and multiples: operands read, three polynomials written; two of them read again by
    the switch, which also rescales."""
    summed = (4 * products + 2 * multiples + 3) * limbs
    return summed + switch(limbs, k, k + 1) + 2 * limbs


def rescale(limbs: int) -> int:
    """Both polynomials: the top limb, then for each other limb the top one, itself and the result."""
    return 2 * (1 + 3 * (limbs - 1))


def hoist(limbs: int, k: int) -> int:
    """Digits that are kept: each limb of a digit is written, the digit's own ones are read as well."""
    return sources(limbs) + limbs * groups(limbs + k) + limbs + ceil(limbs / (k + 2)) * (limbs + k)


def transform(limbs: int, k: int, babies: int, giants: int, *, kept: bool) -> int:
    """A linear map by baby and giant steps, without its plaintexts. kept: babies are brought back to Q and
    written (slots to coefficients); otherwise they are made block by block and never written."""
    width = limbs if kept else limbs + k
    turned, sums = babies - 1, 2 * giants * width
    inner = turned * key(limbs, k) + sums
    if kept:
        down = 2 * (limbs + k) * 2 + 2 * (k + division(limbs, k) + 2 * limbs) + limbs + 4 * limbs
        inner += turned * (down + ceil(limbs / (k + 2)) * (limbs + k)) + 2 * limbs * babies
    else:
        inner += ceil(limbs / (k + 2)) * (limbs + k) + 2 * limbs
    final = 2 * (k + 1 + division(limbs - 1, k + 1) + 2 * (limbs - 1))
    return hoist(limbs, k) + inner + (giants - 1) * giant_step(limbs, k) + final


def giant_step(limbs: int, k: int) -> int:
    """c1 divided by P, switched over QP, both halves written and added to the next sum."""
    over = limbs + k
    down = k + division(limbs, k) + 2 * limbs
    switched = sources(limbs) + groups(over) * limbs + limbs + key(limbs, k) + over + 2 * over
    return down + switched + 3 * 2 * over


def raised(top: int) -> int:
    """The modulus raise by 32 keys, which hold the first matrix of the way to the slots."""
    return 4 * top + ceil(32 * 2 * (top + 1) * PACKED) + 2 * (division(top, 1) + 2 * top)


def tensor(limbs: int) -> int:
    """One more product of a sum: its operands."""
    return 4 * limbs


def combine(limbs: int) -> int:
    """A sum of multiples, rescaled."""
    return rescale(limbs) + 6 * limbs


def bootstrap(ring: Ring, of: Any = None) -> Any:
    """Limbs of one complex bootstrap, without plaintexts: two maps at the bottom with as many special primes
    as limbs, the raise by 32 keys, two at the top, two waves of the modular reduction, two conjugations.
    of: what counts something else than limbs of these operations, by functions of the same names."""
    of = of or sys.modules[__name__]
    log_slots, k = ring.n.bit_length() - 2, ring.special
    after = ring.top + EVAL_MOD
    first, top = _maps(log_slots, 2)[::-1], after + TO_SLOTS
    low = [of.transform(BOTTOM - i, BOTTOM - i, *m, kept=True) for i, m in enumerate(first)]
    high = [
        of.transform(top - i, k, *m, kept=False) for i, m in enumerate(_maps(log_slots, TO_SLOTS + 1)[1:])
    ]
    turns = of.rotate(after, k) + of.rotate(ring.top, k)
    return sum(low) + of.raised(top) + sum(high) + 2 * wave(after, k, of) + turns


def wave(limbs: int, k: int, of: Any = None) -> Any:
    """The series, its squarings, and 8z - z^2 in the end. of: as for `bootstrap`."""
    of, total = of or sys.modules[__name__], 0
    for (op, below), n in poly_counts(SERIES_DEGREE).items():
        at = limbs - below
        total += n * (
            of.relinearise(at, k) if op == "mul" else {"tensor": of.tensor, "rescale": of.combine}[op](at)
        )
    at = limbs - SERIES_DEGREE.bit_length()
    total += sum(of.relinearise(at - i, k) for i in range(DOUBLINGS))
    return total + of.relinearise(at - DOUBLINGS, k, multiples=1)


def _maps(log_slots: int, count: int) -> list[tuple[int, int]]:
    """(babies, giants) of the homomorphic DFT's groups, largest strides first: the first wraps around and has
    2^bits diagonals, the others nearly 2^(bits + 1). See `crates/ckks/src/bootstrap/dft.rs`."""
    bits = [log_slots // count + (g >= count - log_slots % count) for g in range(count)][::-1]
    wide = [b + (i > 0) for i, b in enumerate(bits)]
    return [(2 ** ceil(b / 2), 2 ** (b // 2)) for b in wide]


def copy_gb_per_second(threads: int = 1) -> float:
    """What so many threads move in a large copy, each a part: every byte is read and written."""
    source = np.ones(COPY_BYTES // RESIDUE)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))

    def copy() -> None:
        deque(in_threads(lambda part: np.copyto(*part), parts, threads), maxlen=0)

    return 2 * COPY_BYTES / best_ms(copy, 5) / 1e6


def moved(
    ring: Ring, milliseconds: dict[str, float], limbs: int, matrices: int, copy: float
) -> dict[str, Any]:
    """For the report. milliseconds: of rotate, multiply and rescale at `limbs`, and of bootstrap, on one
    thread. matrices: bytes of the plaintexts that a bootstrap reads. copy: GB a second of a copy."""
    counted = {
        "rotate": ring.bytes(rotate(limbs, ring.special)),
        "multiply": ring.bytes(relinearise(limbs, ring.special)),
        "rescale": ring.bytes(rescale(limbs)),
        "bootstrap": ring.bytes(bootstrap(ring)) + matrices,
    }
    rows = {
        name: {"bytes": n, "share_of_copy": n / milliseconds[name] / 1e6 / copy}
        for name, n in counted.items()
    }
    return {"copy_gb_per_second": copy, "operations": rows}
