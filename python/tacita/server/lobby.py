"""Connections of a server: a bounded number in all and of one address, those that wait for a bounded time.

A connection waits until it is admitted. When all places are taken, the oldest that waits, of the address that
has the most, makes room. So a client that greets as fast as honest ones do gets through however many
connections say nothing, unless hundreds come while it greets.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Protocol

from tacita.server.admission import network

PLACES = 256  # a file descriptor, two threads and at most 1 MB in the queue each


class Arrival(Protocol):
    """A connection by its peer's address, which can be closed from any thread."""

    @property
    def address(self) -> str:
        """The peer's IP address."""

    def close(self) -> None:
        """Hangs up at once."""


class Lobby:
    """For threads. places: connections that may wait; twice as many may be there in all. per_address: those
    of one address, None for any number. shared: addresses of proxies, which have no such bound. group: what
    counts as one address."""

    def __init__(
        self,
        places: int = PLACES,
        per_address: int | None = None,
        shared: Collection[str] = (),
        group: Callable[[str], str] = network,
    ) -> None:
        self.places, self.per_address, self._group = places, per_address, group
        self._shared = {group(address) for address in shared}
        self._lock = threading.Lock()
        self._open: dict[Arrival, str] = {}  # with what counts as its address; "" for one that was sent away
        self._waiting: dict[Arrival, str] = {}  # of these, in order of arrival

    def enter(self, arrival: Arrival) -> bool:
        """Takes a place, somebody else's if need be. False: not even that, and the connection is closed."""
        with self._lock:
            where = self._group(arrival.address)
            if not self._make_room(where):
                arrival.close()
                return False
            self._open[arrival] = self._waiting[arrival] = where
            return True

    def leave(self, arrival: Arrival) -> None:
        """It was admitted, or is over: it can no longer be sent away."""
        with self._lock:
            self._waiting.pop(arrival, None)

    def reenter(self, arrival: Arrival) -> None:
        """What it was admitted for is done: it waits again, behind all others."""
        with self._lock:
            if where := self._open.get(arrival):
                self._waiting.setdefault(arrival, where)

    def ended(self, arrival: Arrival) -> None:
        """It is over, and what it held is free."""
        with self._lock:
            self._waiting.pop(arrival, None)
            self._open.pop(arrival, None)

    def _make_room(self, where: str) -> bool:
        if len(self._open) >= 2 * self.places:
            return False
        if self._is_full(where):
            return self._evict(where)
        if len(self._waiting) >= self.places:
            ((crowd, _),) = Counter(self._waiting.values()).most_common(1)
            return self._evict(crowd)
        return True

    def _is_full(self, where: str) -> bool:
        if self.per_address is None or where in self._shared:
            return False
        return Counter(self._open.values())[where] >= self.per_address

    def _evict(self, where: str) -> bool:
        """Sends the oldest of this address away that waits. False where none does."""
        oldest = next((arrival for arrival, other in self._waiting.items() if other == where), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        self._open[oldest] = ""
        oldest.close()
        return True
