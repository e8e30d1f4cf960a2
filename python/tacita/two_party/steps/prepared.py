"""Products with the server's weights, prepared for rows that will come one at a time.

A further token of a generated text is one row, and a product of one row costs the two parties nearly what one
of 32 does. So they make the ciphertexts' part for 32 rows of random masks at once; each row later costs its
own bytes and a plain product at the server (`prepare_weights` of the engine).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tacita.blocks.base import Dense
from tacita.blocks.sequence.past import Past
from tacita.blocks.weights import Weights
from tacita.two_party.base import Formats
from tacita.two_party.integers import Integers, weight_integers
from tacita.two_party.residues import Share, Words
from tacita.two_party.steps.masked import Attended, Exchange

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
        """For so many rows of each of these maps; what was left of them before is dropped.

        Costs what `share_times_weights` does for all these rows. Raises PeerError.
        """
        f = self._formats
        for maps in steps:
            shape = (rows, maps[0].inputs, sum(d.outputs for d in maps))
            self._found[maps] = self._party.prepare_weights(self._integers(maps), shape, f.ring)

    def attend(self, past: Past[Share], groups: Mapping[str, int], rows: int) -> None:
        """The same for products with the keys and values of a past. groups: heads of queries for each of
        keys, by node."""
        exchange = Exchange(self._party)
        for name, (keys, values) in past.nodes.items():
            self.attention[name] = Attended.prepare(exchange, keys, values, groups[name], rows)

    @property
    def left(self) -> int:
        """Rows for which every map is prepared."""
        return min((one.left for one in self._found.values()), default=0)

    def product(self, x: Words, maps: Maps) -> Words | None:
        """This party's share of one row x (1, inputs) times the maps; None where none is prepared for them,
        and for more rows, which are cheaper together."""
        prepared = self._found.get(maps)
        if len(x) != 1 or prepared is None or not prepared.left:
            return None
        found: Words = self._party.times_prepared(x, prepared, self._integers(maps))
        return found

    def _integers(self, maps: Maps) -> Integers | None:
        return None if self._weights is None else weight_integers(self._weights, maps, self._formats.weight)
