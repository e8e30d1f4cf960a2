"""Requests of several clients in one queue: in which order are they answered?

>>> expected([("a", 2), ("b", 1), ("c", 2)])
['a', 'b', 'c', 'a', 'c']
>>> in_turn(["b", "a", "b", "a", "b"])  # the worker was free for the first
True
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from bench.runs.service.processes import family
from tacita.cli.service.started import PATIENCE, Started
from tacita.client.connect import connect_async
from tacita.errors import ResourceError
from tacita.server.store import requests
from tacita.server.store.ledger import Ledger

FIRST, SECOND = 0.5, 0.3  # of all requests; the third client has the rest
LOOKS = 0.05  # seconds between two looks at what has come


def measure_turns(
    server: Started, scheme: str, texts: Sequence[str], folder: Path, *, waiting: int
) -> dict[str, Any]:
    """All requests have come before the first is evaluated: the server's workers are halted until then.
    waiting: how many, of three clients."""
    counts = {"first": int(waiting * FIRST), "second": int(waiting * SECOND)}
    counts["third"] = waiting - sum(counts.values())
    order = asyncio.run(_order(server, scheme, texts, folder, counts))
    waits = {name: max(_gaps(order, name), default=0) for name in counts}
    return {"in_turn": in_turn(order), "order": order, "most_others_between": waits, "requests": len(order)}


def in_turn(order: Sequence[str]) -> bool:
    """Whether a fair server answers so, when all requests have come before the first is answered. Which of
    the clients that wait is next is not known: their first requests may pass each other on the way into the
    queue."""
    waiting = Counter(order[1:]).items()
    return any(list(order[1:]) == expected(turns) for turns in permutations(waiting))


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


async def _order(
    server: Started, scheme: str, texts: Sequence[str], folder: Path, counts: Mapping[str, int]
) -> list[str]:
    """Names as their requests were answered."""
    answered: list[str] = []
    services = {}
    for name in counts:
        token = server.token(name, per_minute=100_000)
        how: dict[str, Any] = {"token": token, "trust": server.certificate, "data": folder / name}
        services[name] = connect_async(server.url, **how, allow_insecure=True)
        await services[name].classify(texts[0], scheme=scheme)  # keys are there

    async def asked(name: str, number: int) -> None:
        await services[name].classify(texts[number % len(texts)], scheme=scheme)
        answered.append(name)

    try:
        with _halted(server):
            asking = [
                asyncio.ensure_future(asked(name, n)) for name, count in counts.items() for n in range(count)
            ]
            await _all_came(server, len(asking))
        await asyncio.gather(*asking)
    finally:
        for service in services.values():
            await service.close()
    return answered


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


async def _all_came(server: Started, count: int) -> None:
    """Waits for so many requests. Raises ResourceError where they do not come."""
    ledger = Ledger(server.data)
    try:
        for _ in range(int(PATIENCE / LOOKS)):
            if len(rows := requests.unfinished(ledger)) == count:
                return
            await asyncio.sleep(LOOKS)
    finally:
        ledger.close()
    raise ResourceError(f"{len(rows)} of {count} requests came", hint="what does the server's log say?")
