"""The two-party sessions of one model, for a service's event loop: its process is started, started again
after a crash, and given the sockets of clients that were let in."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacita.errors import PeerError, RefusedError
from tacita.server import child
from tacita.server.child import Child, Message, Supervisor, set_within
from tacita.server.confined import command, environment
from tacita.server.sessions.messages import (
    CRASHED,
    STOPPED,
    Answered,
    Client,
    Close,
    Ended,
    Finished,
    Open,
    Reply,
    SessionSpec,
    SoFar,
    Used,
    Wanted,
)
from tacita.two_party.protocol.handshake import GRANTED

MODULE = "tacita.server.sessions.process"
PATIENCE = 10.0  # seconds for a session to wait until a process has loaded the model again
log = logging.getLogger("tacita.server.sessions")


@dataclass
class _Running:
    """A session that the process has. since: when it began. usage: as its process tells it. seconds: of its
    texts that are over; working: when the one that is under way was admitted."""

    client: Client
    since: float
    usage: SoFar
    seconds: float = 0.0
    working: float | None = None

    def used(self, now: float) -> Used:
        usage, under_way = self.usage, 0.0 if self.working is None else now - self.working
        carried = usage.bytes_sent + usage.bytes_received
        return Used(usage.texts, usage.tokens, carried, self.seconds + under_way)

    def rest(self, now: float) -> None:
        """Counts the seconds of its text, if it had one, and settles with the client: the text is over."""
        self.seconds, self.working = self.used(now).seconds, None
        self.client.settle(self.used(now))


def command_of(spec: SessionSpec) -> Sequence[str]:
    """Returns the command of a process that opens model, plan and documents and no other file of the data
    folder."""
    reads = filter(None, (spec.folder, spec.plan, spec.documents))
    return command(MODULE, hidden=spec.plan.parent, reads=reads)


async def start_process(spec: SessionSpec) -> Child:
    """Starts a process that loads the model, as `child.start` does."""
    return await child.start(_name(spec), command_of(spec), spec, Reply, environment())


def _name(spec: SessionSpec) -> str:
    return f"two-party sessions of {spec.model}"


class Sessions:
    """The two-party sessions of one model, all calls in one event loop's thread. clock: seconds."""

    def __init__(self, spec: SessionSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec, self._clock = spec, clock
        self._numbers = itertools.count()
        self._running: dict[int, _Running] = {}
        self._entering = 0
        self.process = Supervisor(
            _name(spec), lambda: start_process(spec), self._on_message, self._on_process_exit
        )
        self._idle = asyncio.Event()
        self._idle.set()
        self._ending = False

    async def start(self) -> None:
        """Returns once the model is loaded. Raises what was wrong with it, TacitaError, and keeps nothing."""
        await self.process.open()

    async def open(self, client: Client) -> socket.socket:
        """Opens a session for this client, and returns the end that a relay reads and writes. It waits in the
        process until it asks for its first text, which takes a place.

        Raises RefusedError when the service is ending, and when the process is not back within seconds of a
        crash.
        """
        if self._ending:
            raise RefusedError("two-party: the service is ending", hint="try again in a while")
        self._entering += 1
        try:
            return self._hand_socket(client, await self.process.wait(PATIENCE))
        finally:
            self._entering -= 1

    def count(self) -> int:
        """Returns the number of sessions, those that are about to begin included."""
        return len(self._running) + self._entering

    def look(self) -> None:
        """Charges what texts under way have taken, and ends the sessions whose clients may take no more."""
        now = self._clock()
        for number, running in self._running.items():
            if not running.client.note(running.used(now)):
                self._say(Close(id=number))

    async def drain(self, seconds: float) -> None:
        """Takes no more sessions, and waits this long at most for those that run."""
        self._ending = True
        await set_within(self._idle, seconds)

    async def stop(self) -> None:
        """Ends the process and the sessions that it still has, whose clients are told."""
        self._ending = True
        await self.process.close(0.0)  # there is nothing that it would have to save
        self._end_all(STOPPED)

    def _hand_socket(self, client: Client, process: Child | None) -> socket.socket:
        if process is None or self._ending:
            raise RefusedError("two-party: the model is being loaded", hint="try again in a moment")
        ours, theirs = socket.socketpair()
        number = next(self._numbers)
        try:
            with theirs:
                ours.setblocking(False)
                process.send(Open(number, client.name, client.places(self._spec.sessions)), theirs)
        except OSError:  # gone, or too busy to read
            ours.close()
            raise RefusedError(
                "two-party: the process of the sessions takes none now", hint="try again in a moment"
            ) from None
        self._running[number] = _Running(client, self._clock(), SoFar(id=number))
        self._idle.clear()
        return ours

    def _on_message(self, message: Reply) -> None:
        match message:
            case Wanted() if message.id in self._running:
                self._answer(message, self._running[message.id])
            case SoFar() if message.id in self._running:
                self._count(message, self._running[message.id])
            case Finished() if message.id in self._running:
                self._end_session(message.id, message.ending)
            case _:
                raise PeerError(
                    f"two-party: the process of the sessions said {type(message).__name__} out of turn"
                )

    def _answer(self, wanted: Wanted, running: _Running) -> None:
        now = self._clock()
        need = Used(wanted.texts, wanted.tokens, wanted.bytes, wanted.seconds)
        refusal = running.client.admit(running.used(now), need) or GRANTED
        if refusal == GRANTED and wanted.seconds:
            running.working = now
        self._say(Answered(id=wanted.id, reason=refusal.reason, number=refusal.number))

    def _count(self, usage: SoFar, running: _Running) -> None:
        running.usage, now = usage, self._clock()
        if usage.over:
            running.rest(now)
        elif not running.client.note(running.used(now)):
            self._say(Close(id=usage.id))

    def _say(self, message: Message) -> None:
        try:
            if self.process.child is not None:
                self.process.child.send(message)
        except OSError:  # it is gone, or does not read: its sessions give up waiting
            log.error("two-party sessions of %s: their process took no %s", self._spec.model, message)

    def _on_process_exit(self) -> bool:
        self._end_all(CRASHED)
        return not self._ending

    def _end_all(self, ending: str) -> None:
        for number in list(self._running):
            self._end_session(number, ending)

    def _end_session(self, number: int, ending: str) -> None:
        was, now = self._running.pop(number), self._clock()
        if not self._running:
            self._idle.set()
        was.rest(now)
        sums, seconds = was.usage, now - was.since
        carried = sums.bytes_sent, sums.bytes_received
        was.client.ended(Ended(was.client.name, sums.texts, seconds, *carried, ending))
