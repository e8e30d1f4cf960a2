"""Callers that mean harm to a service, at the same time as an honest one: what do they cost him?

Idle ones open a connection and are silent; slow ones send a head byte by byte; oversized ones announce a
terabyte; noisy ones send bytes that are no TLS; others show a wrong token, or replay a call that was somebody
else's.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.runs.callers import Caller, Target, callers, drip, idle, until_closed
from tacita.cli.service.started import Started
from tacita.client.connect import connect
from tacita.plans.scheme import BUMBLEBEE

SLOW = 1.0  # seconds between two bytes


def measure_hostile(
    server: Started, texts: Sequence[str], folder: Path, *, count: int, asked: int
) -> dict[str, Any]:
    """The honest client's seconds a text, alone and beside so many callers, each kind in turn. asked: how
    many texts, each time."""
    token = server.token("honest", per_minute=100_000)
    with connect(server.url, token=token, trust=server.certificate, data=folder) as honest:

        def ask() -> object:
            return honest.classify(texts[0], scheme=BUMBLEBEE)

        ask()
        alone, address = _seconds(ask, asked), urlsplit(server.url)
        target = Target(str(address.hostname), int(address.port or 0), server.certificate)
        with callers(target, list(islice(cycle(KINDS.items()), count))) as tries:
            beside = _seconds(ask, asked)
        quiet = statistics.median([*alone, *_seconds(ask, asked)])
    return {
        "callers": count,
        "tries": {name: tries[name] for name in KINDS},
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


async def _slow(target: Target) -> None:
    head = b"GET /v1/models HTTP/1.1\r\nHost: slow\r\nAuthorization: Bearer " + b"x" * 1000
    await drip(await target.secure(), head, SLOW)


async def _oversized(target: Target) -> None:
    head = f"POST /v1/requests?model=m&scheme=s&key={'0' * 32} HTTP/1.1\r\nHost: x\r\n"
    await _sent(target, head + f"Content-Length: {10**12}\r\nAuthorization: Bearer x\r\n\r\n", b"x" * 100_000)


async def _noisy(target: Target) -> None:
    reader, writer = await target.plain()
    writer.write(secrets.token_bytes(4096))
    await until_closed(reader, writer)


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
    await until_closed(reader, writer)


KINDS: dict[str, Caller] = {
    "idle": idle,
    "slow": _slow,
    "oversized": _oversized,
    "noisy": _noisy,
    "wrong token": _wrong_token,
    "replayed": _replayed,
}
