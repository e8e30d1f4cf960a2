"""The process that computes the two-party sessions of one model: a thread for each socket that the service
hands over, of clients whose texts the service admits.

`python -m tacita.server.sessions.process FD`: FD is its end of a channel (see `messages`), by which the
sockets of admitted clients come and one line for each session goes back. What brings this process down, as a
limit of memory or a defect that a stranger's bytes meet, leaves the service standing; and it holds no token,
no store and no network. The end of the channel is the end of all.

A session waits until its first text takes a place; one client has half of those that wait at most. Where
there is no room, the oldest of the client makes some, or of the client that has the most.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

from tacita import checkpoint
from tacita.checkpoint.documents import with_documents
from tacita.errors import FileError, GoneError, LateError, PeerError, TacitaError
from tacita.plans.plan import read_capped
from tacita.server.child import Channel, Message, Ready, Unable, channel_of
from tacita.server.connections import PendingConnections
from tacita.server.sessions.messages import (
    Answered,
    Close,
    Finished,
    Open,
    Order,
    SessionSpec,
    SoFar,
    Used,
    Wanted,
)
from tacita.texts.vectors import Index
from tacita.two_party.limits import Admission, limits_of, texts_of_a_key
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.program.cost import SET_UP
from tacita.two_party.protocol.handshake import GRANTED
from tacita.two_party.protocol.party import Party, over_socket, share_threads
from tacita.two_party.protocol.refusal import Reason, Refusal
from tacita.two_party.server import TwoPartyServer

WAITING, SHARE, MORE = 64, 32, 8  # sessions without a place, in all and of one client; beyond those with one
ANSWER = 30.0  # seconds for the service to admit a text
FAILED, NOT_LET_IN = "failed", "not let in"


class Places:
    """Places of sessions that have asked for a text. Thread-safe. sessions: at the same time."""

    def __init__(self, sessions: int) -> None:
        self.sessions = sessions
        self._lock, self._taken = threading.RLock(), Counter[str]()

    def refusal(self, client: str, most: int) -> Refusal | None:
        """Returns why a client that may have so many places would get none now, or None."""
        with self._lock:
            if self._taken.total() >= self.sessions:
                return Refusal(Reason.FULL, self.sessions)
            return Refusal(Reason.ADDRESS, most) if self._taken[client] >= most else None

    def take(self, client: str, most: int) -> Refusal | None:
        """Takes a place, or says why not."""
        with self._lock:
            if refusal := self.refusal(client, most):
                return refusal
            self._taken[client] += 1
        return None

    def give_back(self, client: str) -> None:
        with self._lock:
            self._taken[client] -= 1
            self._taken += Counter()  # forgets those with none


class HostedSession(Admission):
    """A session's socket, which waits under its client's name, and what admits its texts. answers: of the
    service, about its texts."""

    def __init__(self, opening: Open, sock: socket.socket, host: SessionHost) -> None:
        super().__init__(opening.client)
        self.id, self._most, self._host = opening.id, opening.places, host
        self.answers = queue.SimpleQueue[Refusal]()
        self._sock, self._closed, self._lock = sock, False, threading.Lock()
        self._party: Party | None = None
        self._inside = False

    @property
    def address(self) -> str:
        """Returns the name under which it waits."""
        return self.client

    def open(self, within: float, timeout: float) -> Party:
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

    def refusal(self) -> Refusal | None:
        """Asks the service, too, which knows clients that have had their texts."""
        if not self._inside and (refusal := self._host.places.refusal(self.client, self._most)):
            return refusal
        return self._reserve(Used())

    def fetch(self, size: int) -> None:
        """Has the service reserve the bytes of the public part. Raises RefusedError."""
        if refusal := self._reserve(Used(bytes=size)):
            raise refusal.error()

    def admit(self, tokens: int = 0) -> Refusal | None:
        """Asks the service first: what it reserved is given back where there is no place."""
        refusal = self.resume(tokens, new=1) or self._enter()
        self.texts += refusal is None
        return refusal

    def resume(self, tokens: int = 0, *, new: int = 0) -> Refusal | None:
        """Asks the service. new: 1 for a text that it is to count."""
        plan = self._host.server.plan
        carried = plan.predicted_bytes() + (0 if self.texts else SET_UP)
        return self._reserve(Used(new, tokens, carried, plan.predicted_seconds()))

    def wrote(self) -> None:
        """Counts a token, and tells the service."""
        super().wrote()
        self._send_usage(over=False)

    def over(self) -> None:
        """Tells the service that no text is under way."""
        self._send_usage(over=True)

    def leave(self) -> None:
        """Gives the place back, and tells the service what was used."""
        if self._inside:
            self._inside = False
            self._host.places.give_back(self.client)
        self._send_usage(over=True)

    def _enter(self) -> Refusal | None:
        """Takes a place, unless the session has one."""
        if self._inside:
            return None
        if refusal := self._host.places.take(self.client, self._most):
            return refusal
        self._inside = True
        self._host.pending.leave(self)
        return None

    def _reserve(self, wanted: Used) -> Refusal | None:
        """Asks the service for what a text will take. Returns its refusal, None where it is admitted."""
        self._send_usage(over=True)  # what was used before
        self._host.send(Wanted(id=self.id, **vars(wanted)))
        try:
            answer = self.answers.get(timeout=ANSWER)
        except queue.Empty:
            raise LateError("the service did not answer in time", hint="try again later") from None
        return None if answer == GRANTED else answer

    def _send_usage(self, *, over: bool) -> None:
        assert self._party is not None  # the session has begun
        sent, received = (int(self._party.cost[name]) for name in ("bytes_sent", "bytes_received"))
        self._host.send(SoFar(self.id, self.texts, self.tokens, sent, received, over))


class SessionHost:
    """Serves what is handed over by a channel. sessions: at the same time. silence: seconds after which a
    client that says nothing is given up."""

    def __init__(self, server: TwoPartyServer, sessions: int, silence: float, channel: Channel) -> None:
        self.server, self.channel, self._silence = server, channel, silence
        self.places, most = Places(sessions), sessions + MORE
        self.pending = PendingConnections(max(WAITING, most), max(SHARE, most), group=str)
        self._open = dict[int, HostedSession]()

    def listen(self) -> None:
        """Handles the service's messages until its end is closed."""
        while (message := self.channel.receive()) is not None:
            self._on_message(message)

    def send(self, message: Message) -> None:
        """Sends the service a message; where it is gone, this process is about to end."""
        with suppress(OSError):
            self.channel.send(message)

    def _on_message(self, message: Order) -> None:
        """Handles a message; one about a session that is over is ignored."""
        match message:
            case Open():
                self._take(HostedSession(message, self.channel.take_socket(), self))
            case Answered() if (session := self._open.get(message.id)) is not None:
                session.answers.put(Refusal(message.reason, message.number))
            case Close() if (session := self._open.get(message.id)) is not None:
                session.close()

    def _take(self, session: HostedSession) -> None:
        """Serves a session in a thread of its own."""
        self._open[session.id] = session
        if self.pending.enter(session):
            threading.Thread(target=self._serve, args=(session,), daemon=True).start()
        else:
            self._finish(session, NOT_LET_IN)

    def _serve(self, session: HostedSession) -> None:
        ending = FAILED  # a defect, of which the thread's traceback tells
        try:
            ending = self._serve_party(session, session.open(self.server.limits.handshake, self._silence))
        except PeerError:
            ending = NOT_LET_IN
        finally:
            session.close()
            self.pending.ended(session)
            self._finish(session, ending)

    def _serve_party(self, session: HostedSession, party: Party) -> str:
        try:
            return self.server.session(party, admission=session).ending
        finally:
            party.limit(self.server.limits.farewell)
            party.close()
            session.leave()

    def _finish(self, session: HostedSession, ending: str) -> None:
        self._open.pop(session.id, None)
        self.send(Finished(id=session.id, ending=ending))


def server_of(spec: SessionSpec, cores: int) -> TwoPartyServer:
    """Returns the model ready to serve, with the limits of so many sessions on so many cores. Raises
    FileError, also for another plan than the service has, CheckpointError, PlanError."""
    plan = parse_plan(read_capped(spec.plan).encode())
    if plan.hash != spec.sha256:
        raise FileError(
            f"{spec.plan}: plan {plan.hash[:12]}, not {spec.sha256[:12]}",
            hint="it was changed: start the service again",
        )
    model = checkpoint.load(spec.folder, pooling=spec.pooling)
    if spec.documents is not None:
        model = with_documents(model, Index.load(spec.documents), plan.labels)
    crowding = spec.sessions / cores
    limits = limits_of(plan, bits_per_second=spec.bits_per_second, crowding=crowding, prepared=spec.prepared)
    texts = texts_of_a_key(plan.numbers) if spec.texts_of_a_key is None else spec.texts_of_a_key or None
    return TwoPartyServer(plan, model, limits, texts if plan.embedding else None)


def serve(channel: Channel) -> None:
    """Serves the model that the service names, until the other end is closed."""
    began, spec = time.monotonic(), channel.receive()
    if not isinstance(spec, SessionSpec):
        return
    try:
        server = server_of(spec, share_threads(spec.threads))
    except TacitaError as error:
        channel.send(Unable.of(error))
        return
    channel.send(Ready(time.monotonic() - began))
    SessionHost(server, spec.sessions, spec.silence, channel).listen()


def main() -> None:
    """Serves. Signals are for the service, which drains first."""
    serve(channel_of(sys.argv, Order))
    sys.stderr.flush()
    os._exit(0)  # sessions that run are over: their steps in the engine would be waited for


if __name__ == "__main__":
    main()
