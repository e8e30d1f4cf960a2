"""Callers that mean harm, in a process of their own beside an honest client: what do they cost him?

Each calls again and again: as often as the server hangs up on it, or as its kind gives up by itself.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tacita.errors import TacitaError
from tacita.server.child import die_with_parent

PAUSE = 0.5  # seconds between two tries of one that was hung up on
LOOKS = 0.05  # seconds between two looks at who is there
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Target:
    """Where they aim. certificate: the server's, for callers who check it. tries: connections, made or
    refused."""

    host: str
    port: int
    certificate: Path
    tries: int = 0

    async def plain(self) -> Streams:
        """A connection without TLS."""
        return await self._opened(None)

    async def secure(self) -> Streams:
        """One with it, to whoever answers: they trust nobody, so they check nothing."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await self._opened(context)

    async def _opened(self, context: ssl.SSLContext | None) -> Streams:
        try:
            return await asyncio.open_connection(self.host, self.port, ssl=context)
        finally:
            self.tries += 1


Caller = Callable[[Target], Awaitable[None]]  # one try, until it is over


@contextmanager
def callers(target: Target, kinds: Sequence[tuple[str, Caller]]) -> Iterator[Counter[str]]:
    """Callers of these kinds for as long as the block lasts, which begins when all have tried. The counter
    has their tries by kind when the block has ended. Raises TacitaError where they cannot call."""
    context, tries = multiprocessing.get_context("spawn"), Counter[str]()
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(target, kinds, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield tries
        ours.send(None)
        tries.update(ours.recv())
    except EOFError:
        raise TacitaError("bench: the process of callers ended", hint="its words are above") from None
    finally:
        process.kill()
        process.join()
        ours.close()


def _run(target: Target, kinds: Sequence[tuple[str, Caller]], pipe: Connection) -> None:
    die_with_parent()
    asyncio.run(_call(target, kinds, pipe))


async def _call(target: Target, kinds: Sequence[tuple[str, Caller]], pipe: Connection) -> None:
    tries = Counter[str]()
    tasks = [asyncio.create_task(_again(target, name, caller, tries)) for name, caller in kinds]
    while target.tries < len(tasks):
        await asyncio.sleep(LOOKS)
    pipe.send(None)
    await asyncio.to_thread(pipe.recv)
    for task in tasks:
        task.cancel()
    pipe.send(tries)


async def _again(target: Target, name: str, caller: Caller, tries: Counter[str]) -> None:
    while True:
        tries[name] += 1
        with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            await caller(target)
        await asyncio.sleep(PAUSE)


async def idle(target: Target) -> None:
    """Opens a connection and is silent."""
    await until_closed(*await target.plain())


async def drip(streams: Streams, data: bytes, seconds: float) -> None:
    """Sends a byte every so many seconds, and is silent then."""
    reader, writer = streams
    with suppress(OSError):
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(seconds)
    await until_closed(reader, writer)


async def until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads until the server hangs up."""
    try:
        while await reader.read(65536):
            pass
    finally:
        writer.close()
