"""Connections that have not been admitted yet: a bounded number, each in a thread of its own, for a bounded
time.

When all are taken, the oldest of the address that has the most makes room. So a client that greets as fast as
honest ones do gets through however many connections say nothing, unless hundreds come while it greets.
"""

from __future__ import annotations

import threading
from collections import Counter
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
    """For threads. places: connections that may wait; twice as many threads may be on their way out."""

    def __init__(self, places: int = PLACES) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._waiting: dict[Arrival, str] = {}  # in order of arrival, with what counts as its address
        self._threads = 0

    def enter(self, arrival: Arrival) -> bool:
        """Takes a place, somebody else's if need be. False: not even that, and the connection is closed."""
        with self._lock:
            if self._threads >= 2 * self._places:
                arrival.close()
                return False
            self._threads += 1
            if len(self._waiting) >= self._places:
                self._evict()
            self._waiting[arrival] = network(arrival.address)
            return True

    def leave(self, arrival: Arrival) -> None:
        """It was admitted, or is over: it can no longer be sent away."""
        with self._lock:
            self._waiting.pop(arrival, None)

    def ended(self, arrival: Arrival) -> None:
        """Its thread is over."""
        self.leave(arrival)
        with self._lock:
            self._threads -= 1

    def _evict(self) -> None:
        ((crowd, _),) = Counter(self._waiting.values()).most_common(1)
        oldest = next(arrival for arrival, where in self._waiting.items() if where == crowd)
        del self._waiting[oldest]
        oldest.close()
