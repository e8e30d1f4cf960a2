"""The sessions of a process: the same reception as on the bare port, for sockets that the supervisor hands
over, of clients whose texts the supervisor admits.

A session waits in the lobby, of which one client has half at most, until its first text takes a place. Where
there is no room, the oldest of the client makes some, or of the client that has the most. One client never
has all places.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tacita.errors import GoneError, LateError
from tacita.server.child import Channel, Message
from tacita.server.sessions.control import Answered, Close, Finished, Open, Order, SoFar, Wanted
from tacita.server.store.tables import Used
from tacita.two_party.admission import Guest, Lobby, SessionLimiter, SessionLimits
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program.cost import SET_UP
from tacita.two_party.protocol.handshake import GRANTED
from tacita.two_party.protocol.party import Party, over_socket
from tacita.two_party.protocol.refusal import Refusal
from tacita.two_party.reception import Arrival, Reception, Visit
from tacita.two_party.server import TwoPartyServer

LOBBY, SHARE = 64, 32  # sessions without a place, a thread each: in all, and of one client
ANSWER = 30.0  # seconds for the supervisor to admit a text
FAILED = "failed"


class Hosted:
    """A session's socket: an arrival by its client's name. answers: of the supervisor, about its texts."""

    def __init__(self, opening: Open, sock: socket.socket) -> None:
        self.address, self.port = opening.guest, opening.id
        self.answers = queue.SimpleQueue[Refusal]()
        self._sock, self._closed, self._lock = sock, False, threading.Lock()
        self._party: Party | None = None

    def secure(self, within: float, timeout: float) -> Party:
        """Returns the party; the relay has seen to TLS. Raises GoneError for one closed meanwhile."""
        with self._lock:
            if self._closed:
                raise GoneError("the session was ended before it began", hint="")
            self._party = over_socket(self._sock, client=False, timeout=timeout, threads=None)
        self._party.limit(within)
        return self._party

    def close(self) -> None:
        """Hangs up at once, whatever other threads do with it."""
        with self._lock:
            self._closed = True
            if self._party is None:
                self._sock.close()
            else:
                self._party.native.abort()


class HostedGuest(Guest):
    """The entry of a session whose texts the supervisor admits."""

    def __init__(
        self,
        admission: SessionLimiter,
        hosted: Hosted,
        entered: Callable[[], None],
        party: Party,
        plan: TwoPartyPlan,
        send: Callable[[Message], None],
    ) -> None:
        super().__init__(admission, hosted.address, hosted.address, entered)
        self._hosted, self._party, self._plan, self._send = hosted, party, plan, send

    def fetch(self, size: int) -> None:
        if refusal := self._reserve(Used(bytes=size)):
            raise refusal.error()

    def admit(self, tokens: int = 0) -> Refusal | None:
        """Asks the supervisor first: what it reserved is given back where there is no place."""
        carried = self._plan.predicted_bytes() + (0 if self.texts else SET_UP)
        wanted = Used(1, tokens, carried, self._plan.predicted_seconds())
        return self._reserve(wanted) or super().admit(tokens)

    def _reserve(self, wanted: Used) -> Refusal | None:
        """Asks the supervisor for what a text will take. Returns its refusal, None where it is admitted."""
        self._send_usage(over=True)  # what was used before
        self._send(Wanted(id=self._hosted.port, **vars(wanted)))
        try:
            answer = self._hosted.answers.get(timeout=ANSWER)
        except queue.Empty:
            raise LateError("the service did not answer in time", hint="try again later") from None
        return None if answer == GRANTED else answer

    def wrote(self) -> None:
        super().wrote()
        self._send_usage(over=False)

    def over(self) -> None:
        self._send_usage(over=True)

    def leave(self) -> None:
        super().leave()
        self._send_usage(over=True)

    def _send_usage(self, *, over: bool) -> None:
        sent, received = (int(self._party.cost[name]) for name in ("bytes_sent", "bytes_received"))
        usage = SoFar(
            id=self._hosted.port,
            texts=self.texts,
            tokens=self.tokens,
            bytes_sent=sent,
            bytes_received=received,
            over=over,
        )
        self._send(usage)


@dataclass(frozen=True)
class Host(Reception):
    """Receives what is handed over by a channel. open: sessions by their number."""

    channel: Channel = field(kw_only=True)
    open: dict[int, Hosted] = field(default_factory=dict)

    def listen(self) -> None:
        """Handles the service's messages until its end is closed."""
        while (message := self.channel.receive()) is not None:
            if isinstance(message, Open):
                self.take(message, self.channel.take_socket())
            else:
                self.on_message(message)

    def take(self, opening: Open, sock: socket.socket) -> None:
        """Serves this session in a thread of its own."""
        hosted = Hosted(opening, sock)
        self.open[opening.id] = hosted
        if self.lobby.enter(hosted):
            threading.Thread(target=self.visit, args=(hosted,), daemon=True).start()
        else:
            self._finish(hosted, "not let in")

    def on_message(self, message: Order) -> None:
        """Handles a message about a session; one about a session that is over is ignored."""
        if isinstance(message, Answered) and (hosted := self.open.get(message.id)):
            hosted.answers.put(Refusal(message.reason, message.number))
        elif isinstance(message, Close) and (hosted := self.open.get(message.id)):
            hosted.close()

    def visit(self, arrival: Arrival) -> Visit:
        ending = FAILED  # a defect, of which the thread's traceback tells
        try:
            visit = super().visit(arrival)
            ending = visit.ending
            return visit
        finally:
            self._finish(arrival, ending)

    def guest(self, arrival: Arrival, party: Party) -> Guest:
        assert isinstance(arrival, Hosted)  # nothing else is taken
        entered = partial(self.lobby.leave, arrival)
        return HostedGuest(self.admission, arrival, entered, party, self.server.plan, self.channel.send)

    def _finish(self, arrival: Arrival, ending: str) -> None:
        self.open.pop(arrival.port, None)
        self.channel.send(Finished(id=arrival.port, ending=ending))


def host_of(server: TwoPartyServer, sessions: int, silence: float, channel: Channel) -> Host:
    """Returns the host of so many sessions at the same time, of which one client has at most all but one.
    silence: seconds after which a client that says nothing is given up."""
    caps = SessionLimits(sessions, max(1, sessions - 1))
    lobby = Lobby(LOBBY, SHARE, group=str)
    return Host(server, SessionLimiter(caps), silence, lambda _: None, lobby, channel=channel)
