"""What every call of a service needs: a thread for long computations, which leaves the event loop free; a
loop of its own where there is no `await`; a meter of its cost.

>>> meter = Meter(iter([0.0, 2.5]).__next__)
>>> with meter.step("encrypt"):
...     meter.sent += 100
>>> meter.cost
Cost(seconds={'encrypt': 2.5}, sent=100, received=0)
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tacita.errors import InputError
from tacita.progress import Progress

T = TypeVar("T")
Report = Callable[[Progress], None]
SETTLED = 60.0  # seconds that an interrupted call may take to clean up


class LeftError(Exception):
    """Raised in a thread whose caller went away."""


async def in_thread(action: Callable[[Report], T], report: Report = lambda _: None) -> T:
    """Runs an action that reports its progress in a thread, and returns its result. When cancelled, the
    action ends at its next report, and this waits for it: nothing goes on in a folder that the caller then
    removes."""
    cancelled = threading.Event()

    def report_unless_cancelled(now: Progress) -> None:
        if cancelled.is_set():
            raise LeftError("its caller was cancelled")
        report(now)

    working = asyncio.get_running_loop().run_in_executor(None, action, report_unless_cancelled)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait([working])
        working.exception()  # of somebody who left
        raise


class LoopThread:
    """An event loop in a thread. `close` ends it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._open = set[AsyncGenerator[Any, None]]()  # of `each`
        self._thread = threading.Thread(target=self._loop.run_forever, name="tacita-remote", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine and returns its result. An interrupted wait (Ctrl-C) cancels it, and lasts until
        it has cleaned up. Raises InputError after `close`."""
        if self.closed:
            coroutine.close()
            raise InputError("the service was closed", hint="connect again")
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []
        over = threading.Event()

        def begin() -> None:
            tasks.append(self._loop.create_task(coroutine))
            tasks[0].add_done_callback(end)

        def end(task: asyncio.Task[T]) -> None:
            _copy(task, outcome)
            over.set()

        def stop() -> None:
            tasks[0].cancel() if tasks else over.set()

        try:  # an interrupt may come at any of these calls, also when `begin` is on its way
            self._loop.call_soon_threadsafe(begin)
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self._loop.call_soon_threadsafe(stop)
                over.wait(SETTLED)
            if not tasks:
                coroutine.close()
            raise

    def each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yields the items, each computed when it is asked for. Closing the iterator closes `items`."""
        self._open.add(items)
        try:
            while (item := self.run(_following(items))) is not None:
                yield item
        finally:
            self._open.discard(items)
            if not self.closed:
                self.run(_ended(items))

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        """Ends the loop and its thread; no call may be in progress. Items not asked for yet are dropped."""
        for items in list(self._open):
            self.run(_ended(items))
        for ending in (self._loop.shutdown_asyncgens(), self._loop.shutdown_default_executor()):
            asyncio.run_coroutine_threadsafe(ending, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _copy(task: asyncio.Task[T], outcome: Future[T]) -> None:
    """Copies the outcome of a task to a future on which another thread waits."""
    if task.cancelled():
        outcome.cancel()
    elif error := task.exception():
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


async def _following(items: AsyncGenerator[T, None]) -> T | None:
    return await anext(items, None)


async def _ended(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


@dataclass(frozen=True)
class Cost:
    """The cost of a call. seconds: by step, in the order in which they began. sent, received: bytes of
    bodies, without headers and TLS."""

    seconds: Mapping[str, float]
    sent: int
    received: int


@dataclass
class Meter:
    """Counts seconds and bytes during a call. clock: seconds."""

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)
    sent: int = 0
    received: int = 0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures the seconds of a step; another step of the same name adds to them."""
        began = self.clock()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock() - began

    @property
    def cost(self) -> Cost:
        return Cost(dict(self.seconds), self.sent, self.received)
