"""Attention of one row at a time over keys and values that stay: its products prepared ahead.

    scores = MaskedProduct.prepare(party, turned_keys, 38, group=3, rows=32, axis=-1)  # for 32 tokens
    mix = MaskedProduct.prepare(party, values, 40, group=3, rows=32, axis=-2)
    scores.times(query, new_key)  # for each of them: one opening
    mix.times(numerators, new_value)

Both factors of a product x Y are shared. Before x is known, the parties multiply random r in its place by the
slices of Y that are there, and by random s for those that will come. Later they open x - r and the new
slice's y - s, which say nothing, and add up what is left locally (Beaver, CRYPTO 1991, for matrices). A
product of 32 rows costs two parties little more than that of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.two_party.arithmetic.residues import Words, reduced

BYTE = 8
AT_ONCE = 32  # rows that are prepared together


def open_shares(party: Any, shares: Sequence[Words], ring: int) -> list[Words]:
    """Opens the values to both parties, by one message each way of whole bytes a number. What is sent is
    reduced first: the borrow of a difference would tell more of a share than its residue."""
    flat, width = reduced(np.concatenate([each.ravel() for each in shares]), ring), -(-ring // BYTE)
    party.send(np.ascontiguousarray(flat).view(np.uint8).reshape(-1, BYTE)[:, :width].tobytes())
    theirs = np.zeros((flat.size, BYTE), np.uint8)
    theirs[:, :width] = np.frombuffer(party.receive(width * flat.size), np.uint8).reshape(-1, width)
    total = reduced(flat + theirs.view(np.uint64).ravel(), ring)
    ends = np.cumsum([each.size for each in shares])[:-1]
    return [part.reshape(s.shape) for part, s in zip(np.split(total, ends), shares, strict=True)]


@dataclass
class MaskedProduct:
    """Rows x (groups, p, m), one at a time, times Y (groups, m, n), of which each brings one slice more.

    party: the engine's `TwoParty`. masks: shares of r, (groups, p, rows, m). known: shares of what Y was, and
    of the masks of its slices to come. products: shares of r Y. axis: of Y, along which it grows: -1 for
    columns, -2 for rows.
    """

    party: Any
    masks: Words = field(repr=False)
    known: Words = field(repr=False)
    products: Words = field(repr=False)
    ring: int
    axis: int
    used: int = 0
    _opened: Words = field(init=False, repr=False)

    @staticmethod
    def prepare(party: Any, old: Words, ring: int, *, group: int, rows: int, axis: int) -> MaskedProduct:
        """Multiplies masks for `rows` rows by Y before the rows are known. old: shares of Y as it is, modulo
        2^ring. group: rows p at a time. Costs one product of group * rows rows."""
        new = list(old.shape)
        new[axis] = rows
        slices = np.concatenate([old, _random(tuple(new), ring)], axis=axis)
        groups, inner = slices.shape[0], slices.shape[-2]
        masks = _random((groups, group, rows, inner), ring)
        if axis == -2:  # a row meets the slices up to its own
            masks *= np.tri(rows, inner, inner - rows, dtype=np.uint64)
        left, right = masks.reshape(groups, group * rows, inner), np.ascontiguousarray(slices)
        products = party.share_times_share(left, right, (*left.shape, right.shape[-1]), ring, opened=False)
        return MaskedProduct(party, masks, slices, products.reshape(*masks.shape[:-1], -1), ring, axis)

    def __post_init__(self) -> None:
        self._opened = np.zeros_like(self.known)

    @property
    def left(self) -> int:
        """Rows for which there are masks."""
        return int(self.masks.shape[2]) - self.used

    def times(self, x: Words, new: Words) -> Words:
        """Returns shares of x Y in the ring, of as much of Y as there is with this slice: x (groups, p, m),
        of rows m that there are; new: Y's slice (groups, m, 1) or (groups, 1, n)."""
        number, first = self.used, self.known.shape[self.axis] - self.masks.shape[2]
        self.used += 1  # before anything is sent: no mask serves twice
        there = first + number + 1
        at = _slice(self.axis, first + number)
        r = self.masks[:, :, number, : x.shape[-1]]
        e, f = open_shares(self.party, [x - r, new - self.known[at]], self.ring)
        self._opened[at] = f
        upto = (slice(None), slice(0, x.shape[-1]), slice(0, there if self.axis == -1 else None))
        public, secret = self._opened[upto], self.known[upto]
        total = self.products[:, :, number, upto[2]] + e @ secret + r @ public
        return reduced(total + e @ public if self.party.is_client else total, self.ring)


def _slice(axis: int, number: int) -> tuple[Any, ...]:
    """Returns the index of one column or row of matrices."""
    one = slice(number, number + 1)
    return (Ellipsis, one) if axis == -1 else (Ellipsis, one, slice(None))


def _random(shape: tuple[int, ...], ring: int) -> NDArray[np.uint64]:
    """Draws uniform residues from the operating system."""
    drawn = np.frombuffer(token_bytes(BYTE * int(np.prod(shape))), np.uint64)
    return reduced(drawn.reshape(shape).copy(), ring)
