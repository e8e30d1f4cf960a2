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


class LeftError(Exception):
    """Raised in a thread whose caller went away."""


async def in_thread(action: Callable[[Report], T], report: Report) -> T:
    """What an action returns that reports how far it is, from a thread. Cancelled, it ends at its next
    report."""
    left = threading.Event()

    def heard(now: Progress) -> None:
        if left.is_set():
            raise LeftError("its caller was cancelled")
        report(now)

    try:
        return await asyncio.to_thread(action, heard)
    finally:
        left.set()


class LoopThread:
    """An event loop in a thread. `close` ends it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tacita-remote", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Its result. An interrupted wait (Ctrl-C) cancels it, and lasts until it has cleaned up."""
        future = asyncio.run_coroutine_threadsafe(self._task(coroutine), self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                self._settled()
            raise

    def close(self) -> None:
        """No call may be in progress."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._loop.shutdown_asyncgens(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _task(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await coroutine

    def _settled(self) -> None:
        """Waits until the loop has nothing else to do than this."""

        async def others() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(others(), self._loop).result()
