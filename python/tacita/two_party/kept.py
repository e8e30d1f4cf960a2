"""Products of one row with rows that are kept, prepared before either is known.

Scores of a further token are its queries times all keys so far, then its weights times all values: one row
against matrices that only grow. Made alone they cost both parties whole ciphertexts of every head. So they
draw shares of masks, B for every place that a key or a value may take and A for 32 rows to come, and multiply
A B in ciphertexts, all 32 rows at once. A row x against the matrix y then opens x - A, and y - B where y is
new, and the rest is local (Beaver 1991):

    x y = (x - A)(y - B) + (x - A) B + A (y - B) + A B

A mask hides one value: A's of a row are used once, B's of a place for what stays there. Places that nothing
has taken yet count as y = B, so that nothing is opened there, and meet zeros of x.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tacita.two_party.residues import WORD, Words, reduced


@dataclass(frozen=True)
class Growing:
    """x (heads, rows, inner) times y (heads, inner, columns) modulo 2^ring, one x at a time. axis: along
    which y grows, 1 or 2."""

    name: str
    heads: int
    rows: int
    inner: int
    columns: int
    ring: int
    axis: int


class KeptProduct:
    """One party's part of one such product. Both parties make the same calls in the same order."""

    def __init__(self, party: Any, what: Growing) -> None:
        self._party, self._what, self._taken = party, what, 0
        self._mask = _drawn((what.heads, what.inner, what.columns), what.ring)
        self._open = np.zeros_like(self._mask)
        self._rows: list[tuple[Words, Words]] = []

    @property
    def left(self) -> int:
        """Rows that are prepared."""
        return len(self._rows)

    def prepare(self, rows: int) -> None:
        """For so many x; those that were left are dropped. Costs one product of shared matrices."""
        w = self._what
        masks = _drawn((w.heads, rows * w.rows, w.inner), w.ring)
        shape = (w.heads, rows * w.rows, w.inner, w.columns)
        products = self._party.share_times_share(masks, self._mask, shape, w.ring)
        self._rows = list(zip(np.split(masks, rows, axis=1), np.split(products, rows, axis=1), strict=True))

    def product(self, x: Words, y: Words, ring: int) -> Words | None:
        """This party's share of x y; the rows of y up to the last call's are those of the last call. None for
        what is not prepared: several rows of x, a y without a new row, another ring."""
        w, count = self._what, y.shape[self._what.axis]
        if (x.shape[1], ring) != (w.rows, w.ring) or not self._rows or not self._taken < count:
            return None
        mask, product = self._rows.pop()
        new = tuple(slice(self._taken, count) if axis == w.axis else slice(None) for axis in range(3))
        padded = np.pad(x, ((0, 0), (0, 0), (0, w.inner - x.shape[2])))
        off, self._open[new] = self._opened(padded - mask, y[new] - self._mask[new])
        self._taken = count
        other = self._mask + self._open if self._party.is_client else self._mask
        return reduced((off @ other + mask @ self._open + product)[..., : y.shape[2]], ring)

    def _opened(self, *parts: Words) -> list[Words]:
        """The sums of both parties' shares, in one round."""
        ring = self._what.ring
        mine = reduced(np.concatenate([part.ravel() for part in parts]), ring)
        packed = _packed(mine, ring)
        self._party.reveal(packed)
        theirs = self._party.receive_revealed(np.zeros_like(packed), WORD)
        total = reduced(mine + _unpacked(theirs, ring, len(mine)), ring)
        cuts = np.cumsum([part.size for part in parts])[:-1]
        found = zip(np.split(total, cuts), parts, strict=True)
        return [values.reshape(part.shape) for values, part in found]


class KeptProducts:
    """All of a text's, by name. tokens: places of every matrix."""

    def __init__(self, party: Any, products: Iterable[Growing], tokens: int) -> None:
        self.tokens = tokens
        self._found = {what.name: KeptProduct(party, what) for what in products}

    def prepare(self, rows: int) -> None:
        """For so many rows of each."""
        for one in self._found.values():
            one.prepare(rows)

    def product(self, name: str, x: Words, y: Words, ring: int) -> Words | None:
        """See `KeptProduct.product`."""
        one = self._found.get(name)
        return None if one is None else one.product(x, y, ring)


def _drawn(shape: tuple[int, ...], ring: int) -> Words:
    """Uniform residues."""
    words = np.frombuffer(secrets.token_bytes(8 * prod(shape)), np.uint64)
    return reduced(words.reshape(shape), ring)


def _packed(values: Words, ring: int) -> Words:
    """`ring` bits of each, in whole words."""
    bits = np.unpackbits(values.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    held = np.packbits(bits[:, :ring].ravel(), bitorder="little")
    return np.pad(held, (0, -len(held) % 8)).view("<u8").astype(np.uint64)


def _unpacked(words: Words, ring: int, count: int) -> Words:
    """Inverse."""
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")[: count * ring]
    wide = np.pad(bits.reshape(count, ring), ((0, 0), (0, WORD - ring)))
    return np.packbits(wide, axis=1, bitorder="little").view("<u8").astype(np.uint64).reshape(count)
