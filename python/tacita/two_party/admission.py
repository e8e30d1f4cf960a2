"""Who is served: sessions at the same time, of one address, and texts of one client over the server's life.

A client is known by the certificate that it showed, or without one by its network address. A session takes
its place when it asks for its first text, so that connections that only greet, or say nothing, hold none.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from tacita.two_party.protocol.refusal import Reason, Refusal

SUBNET = 64  # bits of an IPv6 address that a subscriber cannot change


@dataclass(frozen=True)
class SessionLimits:
    """Bounds of what a server serves. sessions: at the same time.

    per_address: of these, one address's; None: all but one, and all for loopback, where tunnels and proxies
    make every client look alike. texts: of one client, None for any number.
    """

    sessions: int = 4
    per_address: int | None = None
    texts: int | None = None

    def of_address(self, network: str) -> int:
        """Returns how many sessions one address may have at the same time."""
        if self.per_address is not None:
            return self.per_address
        loopback = ipaddress.ip_network(network).is_loopback
        return self.sessions if loopback else max(1, self.sessions - 1)


def network(address: str) -> str:
    """Returns what counts as one address: IPv4 by all its bits, IPv6 by its first 64.

    Raises ValueError for a text that is no address.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is None:
            bits = 128 if ip.is_loopback else SUBNET
            return str(ipaddress.ip_network((ip, bits), strict=False))
        ip = ip.ipv4_mapped
    return str(ipaddress.ip_network(ip))


class SessionLimiter:
    """Counts the sessions and texts of all clients and refuses those beyond the caps. Thread-safe.

    Its memory grows with clients that were granted a text, not with connections.
    """

    def __init__(self, caps: SessionLimits) -> None:
        self.caps = caps
        self._lock = threading.Lock()
        self._sessions: Counter[str] = Counter()
        self._texts: Counter[str] = Counter()

    def guest(
        self, address: str, certificate: str | None, entered: Callable[[], None] = lambda: None
    ) -> Guest:
        """Returns the record of a connected client. entered: called when its session takes a place."""
        where = network(address)
        return Guest(self, where, certificate or where, entered)

    def refusal(self, guest: Guest) -> Refusal | None:
        """Returns why this client would be refused now, or None."""
        with self._lock:
            return self._refusal(guest)

    def admit(self, guest: Guest) -> Refusal | None:
        """Takes a place if the session has none, and one of the client's texts; or says why not."""
        with self._lock:
            if refusal := self._refusal(guest):
                return refusal
            self._texts[guest.client] += 1
            if not guest.inside:
                guest.inside = True
                self._sessions[guest.network] += 1
                guest.entered()
        return None

    def leave(self, guest: Guest) -> None:
        """Gives the place back."""
        with self._lock:
            if guest.inside:
                guest.inside = False
                self._sessions[guest.network] -= 1
                self._sessions += Counter()  # forgets those with none

    def _refusal(self, guest: Guest) -> Refusal | None:
        caps = self.caps
        if caps.texts is not None and self._texts[guest.client] >= caps.texts:
            return Refusal(Reason.CLIENT, caps.texts)
        if guest.inside:
            return None
        if self._sessions.total() >= caps.sessions:
            return Refusal(Reason.FULL, caps.sessions)
        if self._sessions[guest.network] >= (most := caps.of_address(guest.network)):
            return Refusal(Reason.ADDRESS, most)
        return None


class Guest:
    """One client's session as it is counted. network: what its places are counted by; client: what its texts
    are counted by. texts: that were admitted, also one that was broken off; tokens: of texts that are
    written."""

    def __init__(
        self, admission: SessionLimiter, network: str, client: str, entered: Callable[[], None]
    ) -> None:
        self._admission, self.network, self.client, self.entered = admission, network, client, entered
        self.inside, self.texts, self.tokens = False, 0, 0

    def refusal(self) -> Refusal | None:
        """Returns why it would be refused now, or None; takes nothing."""
        return self._admission.refusal(self)

    def fetch(self, size: int) -> None:
        """Is called before the public part, of `size` bytes, is sent. Raises RefusedError where it must not
        be."""

    def admit(self, tokens: int = 0) -> Refusal | None:
        """Asks for one text, of at most so many tokens where it is written."""
        refusal = self._admission.admit(self)
        self.texts += refusal is None
        return refusal

    def wrote(self) -> None:
        """Counts one more token of the text; it is chosen already and sent next."""
        self.tokens += 1

    def over(self) -> None:
        """Is called when the text that was admitted last is answered."""

    def leave(self) -> None:
        """Gives the session's place back."""
        self._admission.leave(self)


def anybody() -> Guest:
    """Returns a guest of a server that serves one session without bounds: for tests and programs that made
    the connection themselves."""
    return SessionLimiter(SessionLimits(sessions=1)).guest("127.0.0.1", None)


# Connections of a server: a bounded number in all and of one address, those that wait for a bounded time.
#
# A connection waits until it is admitted. When all places are taken, the oldest that waits, of the address
# that has the most, makes room. So a client that greets as fast as honest ones do gets through however many
# connections say nothing, unless hundreds come while it greets.

PLACES = 256  # a file descriptor, two threads and at most 1 MB in the queue each


class Arrival(Protocol):
    """A connection by its peer's address, which can be closed from any thread."""

    @property
    def address(self) -> str:
        """The peer's IP address."""

    def close(self) -> None:
        """Hangs up at once."""


class Lobby:
    """Holds the connections that wait to be admitted. Thread-safe. places: connections that may wait; twice
    as many may be there in all. per_address: those of one address, None for any number. shared: addresses of
    proxies, which have no such bound. group: what counts as one address."""

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
        """Ends a connection's wait: it was admitted or is over, and can no longer be closed to make room."""
        with self._lock:
            self._waiting.pop(arrival, None)

    def reenter(self, arrival: Arrival) -> None:
        """Lets a connection wait again, behind all others: what it was admitted for is done."""
        with self._lock:
            if where := self._open.get(arrival):
                self._waiting.setdefault(arrival, where)

    def ended(self, arrival: Arrival) -> None:
        """Frees what a connection held that is over."""
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
        """Closes the oldest connection of this address that waits. False where none does."""
        oldest = next((arrival for arrival, other in self._waiting.items() if other == where), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        self._open[oldest] = ""
        oldest.close()
        return True
