"""Callers that mean harm, at the same time as an honest one: what do they cost him?

Idle ones open a connection and are silent; slow ones send a head byte by byte; oversized ones announce a
terabyte; noisy ones send bytes that are no TLS; others show a wrong token, or replay a call that was somebody
else's.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tacita.cli.service.started import Started
from tacita.client.connect import connect
from tacita.plans.scheme import BUMBLEBEE

PAUSE = 0.5  # seconds between two tries of one that was hung up on
SLOW = 1.0  # seconds between two bytes


@dataclass(frozen=True)
class Target:
    """Where they aim."""

    host: str
    port: int
    context: ssl.SSLContext

    async def plain(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection without TLS."""
        return await asyncio.open_connection(self.host, self.port)

    async def secure(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One with it."""
        return await asyncio.open_connection(self.host, self.port, ssl=self.context)


Caller = Callable[[Target], Awaitable[None]]


def measure_hostile(
    server: Started, texts: Sequence[str], folder: Path, *, callers: int, asked: int
) -> dict[str, Any]:
    """The honest client's seconds a text, alone and beside so many callers of each kind in turn. asked: how
    many texts, each time."""
    token = server.token("honest", "--per-minute", "100000")
    with connect(server.url, token=token, trust=server.certificate, data=folder) as honest:

        def ask() -> object:
            return honest.classify(texts[0], scheme=BUMBLEBEE)

        ask()
        alone = _seconds(ask, asked)
        beside, counts = asyncio.run(_beside(_target(server), callers, lambda: _seconds(ask, asked)))
        again = _seconds(ask, asked)
    quiet = statistics.median([*alone, *again])
    return {
        "callers": callers,
        "tries": counts,
        "p50_alone": quiet,
        "p50_beside": statistics.median(beside),
        "ratio": statistics.median(beside) / quiet,
    }


def _seconds(ask: Callable[[], object], asked: int) -> list[float]:
    found = []
    for _ in range(asked):
        began = time.monotonic()
        ask()
        found.append(time.monotonic() - began)
    return found


def _target(server: Started) -> Target:
    """They trust nobody, so they check nothing."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address = urlsplit(server.url)
    return Target(str(address.hostname), int(address.port or 0), context)


async def _beside(
    target: Target, callers: int, honest: Callable[[], list[float]]
) -> tuple[list[float], dict[str, int]]:
    counts = dict.fromkeys(KINDS, 0)
    names = [list(KINDS)[n % len(KINDS)] for n in range(callers)]
    tasks = [asyncio.create_task(_again(target, name, counts)) for name in names]
    try:
        return await asyncio.to_thread(honest), counts
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _again(target: Target, name: str, counts: dict[str, int]) -> None:
    """One caller, again and again."""
    while True:
        counts[name] += 1
        with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            await KINDS[name](target)
        await asyncio.sleep(PAUSE)


async def _idle(target: Target) -> None:
    reader, writer = await target.plain()
    await _until_closed(reader, writer)


async def _slow(target: Target) -> None:
    reader, writer = await target.secure()
    with suppress(OSError):
        for byte in b"GET /v1/models HTTP/1.1\r\nHost: slow\r\nAuthorization: Bearer " + b"x" * 1000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(SLOW)
    await _until_closed(reader, writer)


async def _oversized(target: Target) -> None:
    head = f"POST /v1/requests?model=m&scheme=s&key={'0' * 32} HTTP/1.1\r\nHost: x\r\n"
    await _sent(target, head + f"Content-Length: {10**12}\r\nAuthorization: Bearer x\r\n\r\n", b"x" * 100_000)


async def _noisy(target: Target) -> None:
    reader, writer = await target.plain()
    writer.write(secrets.token_bytes(4096))
    await _until_closed(reader, writer)


async def _wrong_token(target: Target) -> None:
    token = f"tacita_{secrets.token_urlsafe(32)}"
    await _sent(target, f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n")


async def _replayed(target: Target) -> None:
    """A call that somebody saw, with its idempotency key, from one who has no token."""
    head = f"POST /v1/requests?model=sst2-tiny&scheme=thor&key={'a' * 32} HTTP/1.1\r\nHost: x\r\n"
    await _sent(target, head + "Idempotency-Key: seen-before\r\nContent-Length: 0\r\n\r\n")


async def _sent(target: Target, head: str, body: bytes = b"") -> None:
    reader, writer = await target.secure()
    writer.write(head.encode() + body)
    await _until_closed(reader, writer)


async def _until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.read(65536):
            pass
    finally:
        writer.close()


KINDS: dict[str, Caller] = {
    "idle": _idle,
    "slow": _slow,
    "oversized": _oversized,
    "noisy": _noisy,
    "wrong token": _wrong_token,
    "replayed": _replayed,
}
