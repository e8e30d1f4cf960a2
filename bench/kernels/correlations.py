"""`python -m bench correlation-prices`: prices of correlated transfers, `PRICES` of
`tacita.two_party.plan.correlations`.

Both parties in one process, in memory, half of the transfers in each direction; on two cores a party has one
to itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tacita import compiled
from tacita.two_party.program.program import CORRELATIONS

FEW, MANY = 10_000, 20_000_000


def correlation_prices() -> None:
    """Seconds and bytes of a correlated transfer, by Ferret and SoftSpoken: what a plan chooses by."""
    for kind in CORRELATIONS:
        few, many = (_measured(kind, count) for count in (FEW, MANY))
        seconds = (many[1] - few[1]) / (many[0] - few[0])
        size = (many[2] - few[2]) / (many[0] - few[0])
        start = max(0.0, few[2] - size * FEW)
        print(f'"{kind}": Price({seconds:.3g}, {size:.3g}, {start:.3g}),')


def _measured(kind: str, count: int) -> tuple[float, float, float]:
    """(transfers made, seconds, bytes)."""
    pair = compiled.native.two_party_pair(timeout=100.0)
    _both(pair, lambda party: party.setup(kind, products=False))
    before = _bytes(pair[0])
    began = time.monotonic()
    _both(pair, lambda party: party.reserve_cots(count // 2, count // 2))
    spent = time.monotonic() - began
    made = pair[0].cots()
    return made["made_as_sender"] + made["made_as_receiver"], spent, _bytes(pair[0]) - before


def _both(pair: tuple[Any, Any], work: Callable[[Any], None]) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, pair))


def _bytes(party: Any) -> float:
    return float(party.bytes_sent + party.bytes_received)
