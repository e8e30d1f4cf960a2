"""A file of keys on its way to evaluators that begin together: which piece goes out when.

A piece is put where every node can fetch it once, and a few are on the way at a time: a node then needs
room for these, where the whole file (2 GB at full size) would stay in its store beside the evaluator's own
copy in memory. `actors` sends what is due here; nothing here knows Ray.

>>> placing = Placing(["a", "b"], size=40, piece=16)
>>> placing.due()
[slice(0, 16, None), slice(16, 32, None)]
>>> placing.arrived("a", 0), placing.due()
(None, [])
>>> placing.arrived("b", 0), placing.due(), placing.sent
(None, [slice(32, 40, None)], True)
"""

from __future__ import annotations

from collections.abc import Iterable

PIECE = 16 << 20  # bytes of a file of keys that are sent at once
ON_THE_WAY = 2  # pieces


class Placing:
    """names: of the evaluators. size: bytes of the file."""

    def __init__(self, names: Iterable[str], size: int, piece: int = PIECE) -> None:
        self.names = set(names)
        self._size, self._piece = size, piece
        self._at = 0
        self._missing: dict[int, set[str]] = {}  # first byte -> who has not got the piece yet

    @property
    def sent(self) -> bool:
        """Whether the last piece has gone out."""
        return self._at == self._size

    def due(self) -> list[slice]:
        """Pieces that go to all evaluators now; they count as sent from here on."""
        found = []
        while self.names and not self.sent and len(self._missing) < ON_THE_WAY:
            begin, self._at = self._at, min(self._at + self._piece, self._size)
            self._missing[begin] = set(self.names)
            found.append(slice(begin, self._at))
        return found

    def arrived(self, name: str, begin: int) -> None:
        """An evaluator has the piece from this byte on."""
        self._missing[begin].discard(name)
        self._settle()

    def lost(self, name: str) -> None:
        """An evaluator is no more: nobody waits for it."""
        self.names.discard(name)
        for names in self._missing.values():
            names.discard(name)
        self._settle()

    def _settle(self) -> None:
        self._missing = {begin: names for begin, names in self._missing.items() if names}
