"""Bodies of calls into files: counted, hashed and timed as they come, a piece of each held in memory.

A sender may not be silent for long, nor so slow that a body takes much longer than its size needs: whoever
holds a connection open holds nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import BinaryIO

from tacita.errors import InputError, LateError

AT_ONCE = 1 << 20  # bytes that wait in memory until a thread hashes and writes them


@dataclass(frozen=True)
class Pace:
    """patience: seconds of silence. least_rate: bytes a second on the whole, beyond `patience`."""

    patience: float
    least_rate: float

    def whole(self, count: int) -> float:
        """Seconds that a body of so many bytes may take."""
        return self.patience + count / self.least_rate


@dataclass(frozen=True)
class Received:
    """count: bytes. sha256: of them, hex."""

    count: int
    sha256: str


async def receive(body: AsyncIterator[bytes], file: BinaryIO, count: int, pace: Pace) -> Received:
    """Writes a body of exactly `count` bytes to the file, from where it stands.

    Raises InputError for one that is longer or shorter, LateError for one that is too slow.
    """
    digest, done, end = hashlib.sha256(), 0, time.monotonic() + pace.whole(count)
    waiting = bytearray()

    def write() -> None:
        digest.update(waiting)
        file.write(waiting)
        waiting.clear()

    async for piece in _timed(body, pace, end):
        done += len(piece)
        if done > count:
            raise InputError(f"body: more than the {count} bytes that were announced", hint="send those")
        waiting += piece
        if len(waiting) >= AT_ONCE:
            await asyncio.to_thread(write)
    await asyncio.to_thread(write)
    if done < count:
        raise InputError(f"body: {done} bytes, {count} were announced", hint="send all of them")
    return Received(done, digest.hexdigest())


async def _timed(body: AsyncIterator[bytes], pace: Pace, end: float) -> AsyncIterator[bytes]:
    pieces = aiter(body)
    while True:
        left = min(pace.patience, end - time.monotonic())
        try:
            piece = await asyncio.wait_for(anext(pieces), max(0.0, left))
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise LateError(
                "body: it comes too slowly", hint="a faster connection, or smaller pieces"
            ) from None
        yield piece
