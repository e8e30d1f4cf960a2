"""Between threads and an event loop: long computations leave the loop free, and calls without `await` have a
loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tacita.run.executor import Progress

T = TypeVar("T")
Report = Callable[[Progress], None]
SETTLED = 60.0  # seconds that an interrupted call may take to clean up


class LeftError(Exception):
    """Raised in a thread whose caller went away."""


async def in_thread(action: Callable[[Report], T], report: Report = lambda _: None) -> T:
    """What an action returns that reports how far it is, from a thread. Cancelled, it ends at its next
    report, and this not before it: nothing goes on in a folder that its caller removes."""
    left = threading.Event()

    def heard(now: Progress) -> None:
        if left.is_set():
            raise LeftError("its caller was cancelled")
        report(now)

    working = asyncio.get_running_loop().run_in_executor(None, action, heard)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        left.set()
        await asyncio.wait([working])
        working.exception()  # of somebody who left
        raise


class LoopThread:
    """An event loop in a thread. `close` ends it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tacita-remote", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Its result. An interrupted wait (Ctrl-C) cancels it, and lasts until it has cleaned up."""
        over = threading.Event()

        async def told() -> T:
            try:
                return await coroutine
            finally:
                over.set()

        future = asyncio.run_coroutine_threadsafe(told(), self._loop)
        try:
            return future.result()
        except BaseException:
            if future.cancel():
                over.wait(SETTLED)
            raise

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._loop.is_closed()

    def close(self) -> None:
        """No call may be in progress."""
        for ending in (self._loop.shutdown_asyncgens(), self._loop.shutdown_default_executor()):
            asyncio.run_coroutine_threadsafe(ending, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
