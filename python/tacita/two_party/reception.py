"""The way from a connection to a served session: one loop that only accepts, and a thread for everything that
a client can delay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tacita.errors import PeerError
from tacita.two_party.admission import Arrival as Waiting
from tacita.two_party.admission import Guest, Lobby, SessionLimiter
from tacita.two_party.protocol.party import Party
from tacita.two_party.server import Served, TwoPartyServer

WAIT = 0.5  # seconds between two looks at Ctrl-C and at the end
FIRST_PAUSE, LAST_PAUSE = 0.01, 1.0  # seconds after a failure to accept, doubled each time
NOTHING = {"bytes_sent": 0.0, "bytes_received": 0.0, "rounds": 0.0}


@dataclass(frozen=True)
class Visit:
    """One connection, once it is over.

    peer: address and port. ending: in a word or two. admitted: whether it held a session's place.
    """

    peer: str
    ending: str
    served: Served
    seconds: float
    admitted: bool = False
    cost: Mapping[str, float] = field(default_factory=lambda: dict(NOTHING))
    profile: tuple[Mapping[str, Any], ...] = ()


class Arrival(Waiting, Protocol):
    """A connection that nothing was said on yet: `tacita.two_party.protocol.party.Arrival`."""

    @property
    def port(self) -> int:
        """The peer's port."""

    def secure(self, within: float, timeout: float) -> Party:
        """Returns the session's party. within: seconds for all until `Party.limit`. timeout: longest silence
        of the peer. Raises PeerError."""


class Listening(Protocol):
    """Source of connections: `tacita.two_party.protocol.party.Listener`."""

    def next(self, wait: float) -> Arrival | None:
        """Returns the next one, or None after `wait` seconds.

        Raises PeerError when there is one and it cannot be taken.
        """


@dataclass(frozen=True)
class Reception:
    """Serves connections, each in a thread of its own. server: who answers.

    timeout: longest silence of a client at any time. on_end: called once for each connection, in its thread.
    """

    server: TwoPartyServer
    admission: SessionLimiter
    timeout: float
    on_end: Callable[[Visit], None]
    lobby: Lobby = field(default_factory=Lobby)

    def receive(self, arrival: Arrival) -> None:
        """Serves this connection in a thread of its own, or closes it at once when there are too many."""
        if self.lobby.enter(arrival):
            threading.Thread(target=lambda: self.on_end(self.visit(arrival)), daemon=True).start()

    def visit(self, arrival: Arrival) -> Visit:
        """Serves one connection, which has entered the lobby, to its end."""
        began = time.monotonic()
        try:
            party = arrival.secure(self.server.limits.handshake, self.timeout)
            return self._session(arrival, party, began)
        except PeerError as error:
            seconds = time.monotonic() - began
            return Visit(peer_name(arrival), "not let in", Served(0, error), seconds)
        finally:
            arrival.close()
            self.lobby.ended(arrival)

    def guest(self, arrival: Arrival, party: Party) -> Guest:
        """Makes the record by which a connection's session is counted."""
        return self.admission.guest(arrival.address, party.peer, lambda: self.lobby.leave(arrival))

    def _session(self, arrival: Arrival, party: Party, began: float) -> Visit:
        guest = self.guest(arrival, party)
        try:
            served = self.server.session(party, guest=guest)
            admitted, profile = guest.inside, tuple(party.profile())
        finally:
            party.limit(self.server.limits.farewell)
            party.close()
            guest.leave()
        seconds = time.monotonic() - began
        return Visit(peer_name(arrival), served.ending, served, seconds, admitted, party.cost, profile)


def peer_name(arrival: Arrival) -> str:
    """Returns address and port as one writes them."""
    host = f"[{arrival.address}]" if ":" in arrival.address else arrival.address
    return f"{host}:{arrival.port}"


def accept_until(
    ended: Callable[[], bool],
    listener: Listening,
    receive: Callable[[Arrival], None],
    changed: Callable[[PeerError | None], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Accepts and does nothing else.

    After a failure it pauses, longer each time up to a second; changed: told of the first failure, and None
    once it goes on.
    """
    pause = 0.0
    while not ended():
        try:
            arrival = listener.next(WAIT)
        except PeerError as error:
            if not pause:
                changed(error)
            pause = min(LAST_PAUSE, 2 * pause or FIRST_PAUSE)
            sleep(pause)
            continue
        if pause:
            changed(None)
        pause = 0.0
        if arrival is not None:
            receive(arrival)
