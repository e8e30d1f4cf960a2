"""Requests of several clients in one queue: in which order are they answered?

>>> expected([("a", 2), ("b", 1), ("c", 2)])
['a', 'b', 'c', 'a', 'c']
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tacita.measure.service.started import Started
from tacita.remote.connect import connect_async

WAITING = (("first", 10), ("second", 6), ("third", 4))  # requests of each client, 20 in all


def measure_turns(server: Started, scheme: str, texts: Sequence[str], folder: Path) -> dict[str, Any]:
    """All requests are sent before the first is answered but for the one that runs at once."""
    order = asyncio.run(_order(server, scheme, texts, folder))
    (name, count), *others = WAITING
    fair = [name, *expected([(name, count - 1), *others])]  # the very first finds the worker free
    waits = {name: max(_gaps(order, name), default=0) for name, _ in WAITING}
    same = order == fair
    return {"in_turn": same, "order": order, "most_others_between": waits, "requests": len(order)}


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


async def _order(server: Started, scheme: str, texts: Sequence[str], folder: Path) -> list[str]:
    order: list[str] = []
    services = {}
    for name, _ in WAITING:
        token = server.token(name, "--per-minute", "100000")
        how: dict[str, Any] = {"token": token, "trust": server.certificate, "data": folder / name}
        services[name] = connect_async(server.url, **how, allow_insecure=True)
        await services[name].classify(texts[0], scheme=scheme)  # keys are there

    async def asked(name: str, number: int) -> None:
        await services[name].classify(texts[number % len(texts)], scheme=scheme)
        order.append(name)

    try:
        await asyncio.gather(*(asked(name, n) for name, count in WAITING for n in range(count)))
    finally:
        for service in services.values():
            await service.close()
    return order
