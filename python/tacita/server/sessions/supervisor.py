"""The two-party sessions of one model, for a service's event loop: its process is started, started again
after a crash, and given the sockets of clients that were let in."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tacita.errors import PeerError, RefusedError, ResourceError, TacitaError
from tacita.server.sessions.control import (
    Answered,
    Close,
    Failed,
    Finished,
    Message,
    Open,
    Ready,
    SoFar,
    Wanted,
)
from tacita.server.sessions.spec import CRASHED, STOPPED, Ended, Guest, SessionSpec
from tacita.server.sessions.worker import Worker, start_process
from tacita.server.store.tables import Used
from tacita.two_party.protocol.handshake import GRANTED

PATIENCE = 10.0  # seconds for a session to wait until a process has loaded the model again
LONG = 60.0  # seconds of life after which a crash is not one of a row
FIRST_PAUSE, LAST_PAUSE = 0.5, 30.0  # seconds before the second and later starts of a row
log = logging.getLogger("tacita.server.sessions")


@dataclass
class _Running:
    """A session that the process has. since: when it began. usage: as its process tells it. seconds: of its
    texts that are over; working: when the one that is under way was admitted."""

    guest: Guest
    since: float
    usage: SoFar
    seconds: float = 0.0
    working: float | None = None

    def used(self, now: float) -> Used:
        """Returns what the session has used up to `now`."""
        usage, under_way = self.usage, 0.0 if self.working is None else now - self.working
        carried = usage.bytes_sent + usage.bytes_received
        return Used(usage.texts, usage.tokens, carried, self.seconds + under_way)

    def rest(self, now: float) -> None:
        """Counts the seconds of its text, if it had one, and settles with the client: the text is over."""
        self.seconds, self.working = self.used(now).seconds, None
        self.guest.settle(self.used(now))


def pause_after(crashes: int) -> float:
    """Returns the seconds until the next start, by the crashes in a row: none after the first."""
    return 0.0 if crashes < 2 else min(LAST_PAUSE, FIRST_PAUSE * 2.0 ** min(crashes - 2, 16))


class Sessions:
    """The two-party sessions of one model, all calls in one event loop's thread. clock: seconds."""

    def __init__(self, spec: SessionSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec, self._clock = spec, clock
        self._numbers = itertools.count()
        self._running: dict[int, _Running] = {}
        self._entering = 0
        self._worker: Worker | None = None
        self._ready, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._keeper: asyncio.Task[None] | None = None
        self._ending = False

    async def start(self) -> None:
        """Returns once the model is loaded. Raises what was wrong with it, TacitaError, and keeps nothing."""
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._run_processes(first))
        try:
            await first
        except BaseException:
            await self.stop()
            raise

    async def open(self, guest: Guest) -> socket.socket:
        """Opens a session for this client, and returns the end that a relay reads and writes. It waits in the
        process's lobby until it asks for its first text, which takes a place.

        Raises RefusedError when the service is ending, and when the process is not back within seconds of a
        crash.
        """
        if self._ending:
            raise RefusedError("two-party: the service is ending", hint="try again in a while")
        self._entering += 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), PATIENCE)
            return self._hand_socket(guest)
        finally:
            self._entering -= 1

    def count(self) -> int:
        """Returns the number of sessions, those that are about to begin included."""
        return len(self._running) + self._entering

    def look(self) -> None:
        """Charges what texts under way have taken, and ends the sessions whose clients may take no more."""
        now = self._clock()
        for number, running in self._running.items():
            if not running.guest.note(running.used(now)):
                self._say(Close(id=number))

    async def drain(self, seconds: float) -> None:
        """Takes no more sessions, and waits this long at most for those that run."""
        self._ending = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)

    async def stop(self) -> None:
        """Ends the process and the sessions that it still has, whose guests are told."""
        self._ending = True
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper

    def _hand_socket(self, guest: Guest) -> socket.socket:
        if self._worker is None or not self._ready.is_set() or self._ending:
            raise RefusedError("two-party: the model is being loaded", hint="try again in a moment")
        ours, theirs = socket.socketpair()
        number = next(self._numbers)
        try:
            ours.setblocking(False)
            self._worker.hand(Open(id=number, guest=guest.name), theirs)
        except BaseException:
            ours.close()
            raise
        self._running[number] = _Running(guest, self._clock(), SoFar(id=number))
        self._idle.clear()
        return ours

    async def _run_processes(self, first: asyncio.Future[None]) -> None:
        """Runs one process after the other, until it is cancelled. first: done when the first has begun to
        serve, or cannot."""
        crashes = 0
        while True:
            since = time.monotonic()
            await self._run_process(first)
            crashes = 1 if time.monotonic() - since > LONG else crashes + 1
            log.error("two-party sessions of %s: their process ended; starting it again", self._spec.model)
            await asyncio.sleep(pause_after(crashes))

    async def _run_process(self, first: asyncio.Future[None]) -> None:
        """Runs one process to its end."""
        ending = STOPPED
        try:
            self._worker = start_process(self._spec)
            await self._hear(self._worker, first)
            ending = CRASHED
            _fail(
                first, ResourceError("two-party: the process of the sessions ended while it loaded the model")
            )
        except (OSError, TacitaError) as error:
            ending = CRASHED
            log.error("two-party sessions of %s: %s", self._spec.model, error)
            failure = (
                error if isinstance(error, TacitaError) else ResourceError(f"two-party: no process ({error})")
            )
            _fail(first, failure)
        finally:
            self._ready.clear()
            worker, self._worker = self._worker, None
            self._on_process_exit(ending)
            if worker is not None:
                await worker.end()

    async def _hear(self, worker: Worker, first: asyncio.Future[None]) -> None:
        """Handles the process's messages until it is gone. Raises PeerError for what is no message,
        TacitaError when it cannot serve."""
        while (message := await worker.hear()) is not None:
            self._on_message(message)
            if isinstance(message, Ready) and not first.done():
                first.set_result(None)

    def _on_message(self, message: Message) -> None:
        match message:
            case Ready():
                self._ready.set()
            case Wanted() if message.id in self._running:
                self._answer(message, self._running[message.id])
            case SoFar() if message.id in self._running:
                self._count(message, self._running[message.id])
            case Finished() if message.id in self._running:
                self._end_session(message.id, message.ending)
            case Failed():
                raise TacitaError(message.text, hint=message.hint)
            case _:
                raise PeerError(
                    f"two-party: the process of the sessions said {type(message).__name__} out of turn"
                )

    def _answer(self, wanted: Wanted, running: _Running) -> None:
        now = self._clock()
        need = Used(wanted.texts, wanted.tokens, wanted.bytes, wanted.seconds)
        refusal = running.guest.admit(running.used(now), need) or GRANTED
        if refusal == GRANTED and wanted.texts:
            running.working = now
        self._say(Answered(id=wanted.id, reason=refusal.reason, number=refusal.number))

    def _count(self, usage: SoFar, running: _Running) -> None:
        running.usage, now = usage, self._clock()
        if usage.over:
            running.rest(now)
        elif not running.guest.note(running.used(now)):
            self._say(Close(id=usage.id))

    def _say(self, message: Message) -> None:
        try:
            if self._worker is not None:
                self._worker.say(message)
        except OSError:  # it is gone, or does not read: its sessions give up waiting
            log.error("two-party sessions of %s: their process took no %s", self._spec.model, message)

    def _on_process_exit(self, ending: str) -> None:
        for number in list(self._running):
            self._end_session(number, ending)

    def _end_session(self, number: int, ending: str) -> None:
        was, now = self._running.pop(number), self._clock()
        if not self._running:
            self._idle.set()
        was.rest(now)
        sums, seconds = was.usage, now - was.since
        carried = sums.bytes_sent, sums.bytes_received
        was.guest.ended(Ended(was.guest.name, sums.texts, seconds, *carried, ending))


def _fail(first: asyncio.Future[None], error: TacitaError) -> None:
    if not first.done():
        first.set_exception(error)
