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
from dataclasses import dataclass, replace

from tacita.errors import PeerError, RefusedError, ResourceError, TacitaError
from tacita.protocol.refusal import Reason, Refusal
from tacita.service.two_party.control import Failed, Finished, Message, Open, Ready, SoFar
from tacita.service.two_party.lane import CRASHED, STOPPED, Ended, TwoPartyLane
from tacita.service.two_party.worker import Worker, started

PATIENCE = 10.0  # seconds for a session to wait until a process has loaded the model again
LONG = 60.0  # seconds of life after which a crash is not one of a row
FIRST_PAUSE, LAST_PAUSE = 0.5, 30.0  # seconds before the second and later starts of a row
log = logging.getLogger("tacita.service.two_party")


@dataclass(frozen=True)
class _Running:
    """A session that the process has. since: by the monotonic clock. told: what it came to."""

    guest: str
    since: float
    told: SoFar


def pause_after(crashes: int) -> float:
    """Seconds before a process is started again, by its crashes in a row: the first is no reason to wait."""
    return 0.0 if crashes < 2 else min(LAST_PAUSE, FIRST_PAUSE * 2.0 ** min(crashes - 2, 16))


class Sessions:
    """One model's. All calls in the thread of one event loop, with which the process ends.

    told: called there once for each session that is over; it must neither wait nor raise.
    """

    def __init__(self, lane: TwoPartyLane, told: Callable[[Ended], None]) -> None:
        self._lane, self._told = lane, told
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
        self._keeper = asyncio.create_task(self._keep(first))
        try:
            await first
        except BaseException:
            await self.stop()
            raise

    async def open(self, guest: str, texts: int | None = None) -> socket.socket:
        """A session for this client: the end that a relay reads and writes. guest: at most 200 characters.
        texts: that it may ask, None for any number.

        Raises RefusedError when there are as many as may be, when the service is ending, and when the process
        is not back within seconds of a crash.
        """
        if self._ending:
            raise RefusedError("two-party: the service is ending", hint="try again in a while")
        if self.count() >= self._lane.sessions:
            raise Refusal(Reason.FULL, self._lane.sessions).error()
        self._entering += 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), PATIENCE)
            return self._handed(guest, texts)
        finally:
            self._entering -= 1

    def count(self) -> int:
        """Sessions, those that are about to begin included."""
        return len(self._running) + self._entering

    async def drain(self, seconds: float) -> None:
        """Takes no more sessions, and waits this long at most for those that run."""
        self._ending = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)

    async def stop(self) -> None:
        """Ends the process and the sessions that it still has, which are told."""
        self._ending = True
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper

    def _handed(self, guest: str, texts: int | None) -> socket.socket:
        if self._worker is None or not self._ready.is_set() or self._ending:
            raise RefusedError("two-party: the model is being loaded", hint="try again in a moment")
        ours, theirs = socket.socketpair()
        number = next(self._numbers)
        try:
            ours.setblocking(False)
            self._worker.hand(Open(id=number, guest=guest, texts=texts), theirs)
        except BaseException:
            ours.close()
            raise
        self._running[number] = _Running(guest, time.monotonic(), SoFar(id=number))
        self._idle.clear()
        return ours

    async def _keep(self, first: asyncio.Future[None]) -> None:
        """One process after the other, until it is cancelled. first: done when the first has begun to serve,
        or cannot."""
        crashes = 0
        while True:
            since = time.monotonic()
            await self._one(first)
            crashes = 1 if time.monotonic() - since > LONG else crashes + 1
            log.error("two-party sessions of %s: their process ended; starting it again", self._lane.model)
            await asyncio.sleep(pause_after(crashes))

    async def _one(self, first: asyncio.Future[None]) -> None:
        """One process to its end."""
        ending = STOPPED
        try:
            self._worker = started(self._lane)
            await self._hear(self._worker, first)
            ending = CRASHED
            _fail(
                first, ResourceError("two-party: the process of the sessions ended while it loaded the model")
            )
        except (OSError, TacitaError) as error:
            ending = CRASHED
            log.error("two-party sessions of %s: %s", self._lane.model, error)
            kept = (
                error if isinstance(error, TacitaError) else ResourceError(f"two-party: no process ({error})")
            )
            _fail(first, kept)
        finally:
            self._ready.clear()
            worker, self._worker = self._worker, None
            self._lost(ending)
            if worker is not None:
                await worker.end()

    async def _hear(self, worker: Worker, first: asyncio.Future[None]) -> None:
        """Until it is gone. Raises PeerError for what is no message, TacitaError when it cannot serve."""
        while (message := await worker.heard()) is not None:
            self._note(message)
            if isinstance(message, Ready) and not first.done():
                first.set_result(None)

    def _note(self, message: Message) -> None:
        match message:
            case Ready():
                self._ready.set()
            case SoFar() if message.id in self._running:
                self._running[message.id] = replace(self._running[message.id], told=message)
            case Finished() if message.id in self._running:
                self._tell(message.id, message.ending)
            case Failed():
                raise TacitaError(message.text, hint=message.hint)
            case _:
                raise PeerError(
                    f"two-party: the process of the sessions said {type(message).__name__} out of turn"
                )

    def _lost(self, ending: str) -> None:
        for number in list(self._running):
            self._tell(number, ending)

    def _tell(self, number: int, ending: str) -> None:
        was = self._running.pop(number)
        if not self._running:
            self._idle.set()
        sums, seconds = was.told, time.monotonic() - was.since
        self._told(Ended(was.guest, sums.texts, seconds, sums.bytes_sent, sums.bytes_received, ending))


def _fail(first: asyncio.Future[None], error: TacitaError) -> None:
    if not first.done():
        first.set_exception(error)
