"""Attention of one row at a time over keys and values that stay: its products prepared ahead.

    ahead = Attended.prepare(exchange, keys, values, group=3, rows=32, ring=38)      # once for 32 tokens
    scores = ahead.scores.times(query, new_key)                                      # each: one opening
    mixed = ahead.mix.times(numerators, new_value)

Both factors of a product x Y are shared. Before x is known, the parties multiply random r in its place by the
slices of Y that are there, and by random s for those that will come. Later they open x - r and the new
slice's y - s, which say nothing, and add up what is left locally (Beaver, CRYPTO 1991, for matrices). A
product of 32 rows costs two parties little more than that of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Dense
from tacita.blocks.sequence import Past
from tacita.blocks.weights import Weights
from tacita.two_party.arithmetic.base import Formats, Integers, weight_integers
from tacita.two_party.arithmetic.residues import Share, Words, reduced

BYTE = 8


class Exchange:
    """Opens shares to both parties, and multiplies shared matrices. party: the engine's `TwoParty`."""

    def __init__(self, party: Any) -> None:
        self._party, self.client = party, bool(party.is_client)

    def open(self, shares: Sequence[Words], ring: int) -> list[Words]:
        """Reveals the values to both parties, by one message each way of whole bytes a number. What is sent
        is reduced first: the borrow of a difference would tell more of a share than its residue."""
        flat, width = reduced(np.concatenate([each.ravel() for each in shares]), ring), -(-ring // BYTE)
        self._party.send(np.ascontiguousarray(flat).view(np.uint8).reshape(-1, BYTE)[:, :width].tobytes())
        received = np.frombuffer(self._party.receive(width * flat.size), np.uint8).reshape(-1, width)
        theirs = np.zeros((flat.size, BYTE), np.uint8)
        theirs[:, :width] = received
        total, ends = (
            reduced(flat + theirs.view(np.uint64).ravel(), ring),
            np.cumsum([s.size for s in shares]),
        )
        return [part.reshape(s.shape) for part, s in zip(np.split(total, ends[:-1]), shares, strict=True)]

    def product(self, left: Words, right: Words, ring: int) -> Words:
        """Multiplies shares (groups, k, m) by (groups, m, n)."""
        shape = (*left.shape, right.shape[-1])
        x, y = np.ascontiguousarray(left), np.ascontiguousarray(right)
        result: Words = self._party.share_times_share(x, y, shape, ring, opened=False)
        return result


@dataclass
class MaskedProduct:
    """Rows x (groups, p, m), one at a time, times Y (groups, m, n), of which each brings one slice more.

    masks: shares of r, (groups, p, rows, m). known: shares of what Y was, and of the masks of its slices to
    come. products: shares of r Y. axis: of Y, along which it grows: -1 for columns, -2 for rows.
    """

    exchange: Exchange
    masks: Words = field(repr=False)
    known: Words = field(repr=False)
    products: Words = field(repr=False)
    ring: int
    axis: int
    used: int = 0
    _opened: Words = field(init=False, repr=False)

    @staticmethod
    def prepare(exchange: Exchange, old: Share, group: int, rows: int, axis: int) -> MaskedProduct:
        """Multiplies masks for `rows` rows by Y before the rows are known. old: Y as it is, with its ring.
        group: rows p at a time. Costs one product of group * rows rows."""
        ring = old.ring
        new = list(old.values.shape)
        new[axis] = rows
        slices = np.concatenate([old.values, _random(tuple(new), ring)], axis=axis)
        groups, inner = slices.shape[0], slices.shape[-2]
        masks = _random((groups, group, rows, inner), ring)
        if axis == -2:  # a row meets the slices up to its own
            masks *= np.tri(rows, inner, inner - rows, dtype=np.uint64)
        products = exchange.product(masks.reshape(groups, group * rows, inner), slices, ring)
        return MaskedProduct(exchange, masks, slices, products.reshape(*masks.shape[:-1], -1), ring, axis)

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
        e, f = self.exchange.open([x - r, new - self.known[at]], self.ring)
        self._opened[at] = f
        upto = (slice(None), slice(0, x.shape[-1]), slice(0, there if self.axis == -1 else None))
        public, secret = self._opened[upto], self.known[upto]
        total = self.products[:, :, number, upto[2]] + e @ secret + r @ public
        return reduced(total + e @ public if self.exchange.client else total, self.ring)


@dataclass
class Attended:
    """Both prepared products of one attention. scores: of queries times keys, mix: of numerators times
    values."""

    scores: MaskedProduct
    mix: MaskedProduct

    @staticmethod
    def prepare(exchange: Exchange, keys: Share, values: Share, group: int, rows: int) -> Attended:
        """Prepares both products for `rows` rows. keys, values: (key heads, tokens, d) so far, in the rings
        of their products. group: heads of queries for each."""
        turned = keys.like(np.swapaxes(keys.values, -1, -2))
        return Attended(
            MaskedProduct.prepare(exchange, turned, group, rows, -1),
            MaskedProduct.prepare(exchange, values, group, rows, -2),
        )


def _slice(axis: int, number: int) -> tuple[Any, ...]:
    """Returns the index of one column or row of matrices."""
    one = slice(number, number + 1)
    return (Ellipsis, one) if axis == -1 else (Ellipsis, one, slice(None))


def _random(shape: tuple[int, ...], ring: int) -> NDArray[np.uint64]:
    """Draws uniform residues from the operating system."""
    drawn = np.frombuffer(token_bytes(BYTE * int(np.prod(shape))), np.uint64)
    return reduced(drawn.reshape(shape).copy(), ring)


# Products with the server's weights, prepared for rows that will come one at a time.
#
# A further token of a generated text is one row, and a product of one row costs the two parties nearly what
# one of 32 does. So they make the ciphertexts' part for 32 rows of random masks at once; each row later costs
# its own bytes and a plain product at the server (`prepare_weights` of the engine).

Maps = tuple[Dense, ...]
AT_ONCE = 32  # rows that are prepared together


class PreparedMaps:
    """One party's part of what is prepared in a session. Both parties make the same calls in the same order.

    party: the engine's `TwoParty`. weights: at the server alone.
    """

    def __init__(self, party: Any, formats: Formats, weights: Weights | None = None) -> None:
        self._party, self._formats, self._weights = party, formats, weights
        self._found: dict[Maps, Any] = {}
        self.attention: dict[str, Attended] = {}

    def prepare(self, steps: Iterable[Maps], rows: int) -> None:
        """Prepares so many rows of each of these maps; drops what was left of them before.

        Costs what `share_times_weights` does for all these rows. Raises PeerError.
        """
        f = self._formats
        for maps in steps:
            shape = (rows, maps[0].inputs, sum(d.outputs for d in maps))
            self._found[maps] = self._party.prepare_weights(self._integers(maps), shape, f.ring)

    def attend(self, past: Past[Share], groups: Mapping[str, int], rows: int) -> None:
        """Prepares `rows` rows of the products with the keys and values of a past. groups: heads of queries
        for each of keys, by node."""
        exchange = Exchange(self._party)
        for name, (keys, values) in past.nodes.items():
            self.attention[name] = Attended.prepare(exchange, keys, values, groups[name], rows)

    @property
    def left(self) -> int:
        """Rows for which every map is prepared."""
        return min((one.left for one in self._found.values()), default=0)

    def product(self, x: Words, maps: Maps) -> Words | None:
        """Returns this party's share of one row x (1, inputs) times the maps; None where none is prepared for
        them, and for more rows, which are cheaper together."""
        prepared = self._found.get(maps)
        if len(x) != 1 or prepared is None or not prepared.left:
            return None
        result: Words = self._party.times_prepared(x, prepared, self._integers(maps))
        return result

    def _integers(self, maps: Maps) -> Integers | None:
        return None if self._weights is None else weight_integers(self._weights, maps, self._formats.weight)
