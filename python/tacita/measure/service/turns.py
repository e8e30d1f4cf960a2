"""Requests of several clients in one queue: in which order are they answered?

>>> expected([("a", 2), ("b", 1), ("c", 2)])
['a', 'b', 'c', 'a', 'c']
>>> in_turn(["b", "a", "a", "b", "b"])  # as they came: the worker was free for the first
['b', 'a', 'b', 'a', 'b']
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from tacita.errors import ResourceError
from tacita.measure.service.started import PATIENCE, Started, family
from tacita.remote.connect import connect_async
from tacita.service.ledger import requests, tokens
from tacita.service.ledger.ledger import Ledger

WAITING = (("first", 10), ("second", 6), ("third", 4))  # requests of each client, 20 in all
LOOKS = 0.05  # seconds between two looks at what has come


def measure_turns(server: Started, scheme: str, texts: Sequence[str], folder: Path) -> dict[str, Any]:
    """All requests have come before the first is evaluated: the server's workers are halted until then."""
    came, order = asyncio.run(_orders(server, scheme, texts, folder))
    waits = {name: max(_gaps(order, name), default=0) for name, _ in WAITING}
    same = order == in_turn(came)
    return {"in_turn": same, "order": order, "most_others_between": waits, "requests": len(order)}


def in_turn(came: Sequence[str]) -> list[str]:
    """Names in the order in which a fair server begins their requests, all of which came in this order
    before the first was answered."""
    first, *others = came
    return [first, *expected(list(Counter(others).items()))]


def expected(waiting: Sequence[tuple[str, int]]) -> list[str]:
    """Names in turn, as long as each has requests."""
    left, order = dict(waiting), list[str]()
    while left:
        order += left
        left = {name: count - 1 for name, count in left.items() if count > 1}
    return order


def _gaps(order: Sequence[str], name: str) -> list[int]:
    """Requests of others between two of a client's."""
    at = [n for n, each in enumerate(order) if each == name]
    return [after - before - 1 for before, after in pairwise(at)]


async def _orders(
    server: Started, scheme: str, texts: Sequence[str], folder: Path
) -> tuple[list[str], list[str]]:
    """Names as their requests came, and as they were answered."""
    answered: list[str] = []
    services = {}
    for name, _ in WAITING:
        token = server.token(name, "--per-minute", "100000")
        how: dict[str, Any] = {"token": token, "trust": server.certificate, "data": folder / name}
        services[name] = connect_async(server.url, **how, allow_insecure=True)
        await services[name].classify(texts[0], scheme=scheme)  # keys are there

    async def asked(name: str, number: int) -> None:
        await services[name].classify(texts[number % len(texts)], scheme=scheme)
        answered.append(name)

    try:
        with _halted(server):
            asking = [asyncio.ensure_future(asked(name, n)) for name, count in WAITING for n in range(count)]
            came = await _came(server, len(asking))
        await asyncio.gather(*asking)
    finally:
        for service in services.values():
            await service.close()
    return came, answered


@contextmanager
def _halted(server: Started) -> Iterator[None]:
    """The server listens, and none of its workers goes on."""
    workers = family(server.process.pid)[1:]
    try:
        for each in workers:
            os.kill(each, signal.SIGSTOP)
        yield
    finally:
        for each in workers:
            os.kill(each, signal.SIGCONT)


async def _came(server: Started, count: int) -> list[str]:
    """Clients of so many requests as these came. Raises ResourceError where they do not."""
    ledger = Ledger(server.data)
    try:
        for _ in range(int(PATIENCE / LOOKS)):
            if len(rows := requests.unfinished(ledger)) == count:
                return [tokens.of_id(ledger, row.client).name for row in rows]
            await asyncio.sleep(LOOKS)
    finally:
        ledger.close()
    raise ResourceError(f"{len(rows)} of {count} requests came", hint="what does the server's log say?")
