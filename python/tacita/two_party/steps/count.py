"""What one more token costs two parties, by the walk that they will make, and what is prepared for it."""

from __future__ import annotations

from math import prod

from tacita.blocks.base import Dense
from tacita.two_party.base import Bounds, Formats, Unnormalised
from tacita.two_party.count import Cost, CountTensors, Shape, product_bits, shared_bits
from tacita.two_party.steps.prepared import AT_ONCE

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
        """The row less its mask; the server's product is plain."""
        outputs = sum(d.outputs for d in maps)
        self.cost.maps.append(maps)
        self.cost.bits += self._formats.ring * x[1]
        self.ahead.bits += product_bits(AT_ONCE, x[1], outputs)
        self.ahead.multiplications += float(AT_ONCE * x[1] * outputs)
        return 1, outputs

    def scores(self, queries: Shape, keys: Shape, name: str) -> Shape:
        """Query and new key less their masks."""
        ring = self._formats.score_ring(self._bounds.attention[name])
        self._opened(prod(queries) + keys[0] * keys[2], ring)
        self._prepared(queries[0], keys[0], keys[2], self._past + AT_ONCE)
        return queries[0], 1, keys[1]

    def mix(self, weights: Unnormalised[Shape], values: Shape, name: str) -> Shape:
        """Numerators and new value less their masks, and one product of numbers for the rows' inverses."""
        ring = self._formats.mix_ring(self._bounds.attention[name], self._room)
        self._opened(prod(weights.numerators) + values[0] * values[2], ring)
        self._prepared(weights.numerators[0], values[0], self._past + AT_ONCE, values[2])
        found = (weights.numerators[0], 1, values[2])
        self._quotient(found, name)
        return found

    def _opened(self, numbers: int, ring: int) -> None:
        """Both ways, in whole bytes."""
        self.cost.bits += 2 * BYTE * -(-ring // BYTE) * numbers

    def _prepared(self, heads: int, groups: int, inner: int, outer: int) -> None:
        rows = heads // groups * AT_ONCE
        self.ahead.bits += groups * shared_bits(rows * inner, inner * outer, rows * outer)
