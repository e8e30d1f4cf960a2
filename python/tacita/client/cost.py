"""Measures the cost of a call: seconds of each step, and bytes sent and received.

>>> meter = Meter(iter([0.0, 2.5]).__next__)
>>> with meter.step("encrypt"):
...     meter.sent += 100
>>> meter.cost
Cost(seconds={'encrypt': 2.5}, sent=100, received=0)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cost:
    """The cost of a call. seconds: by step, in the order in which they began. sent, received: bytes of
    bodies, without headers and TLS."""

    seconds: Mapping[str, float]
    sent: int
    received: int


@dataclass
class Meter:
    """Counts seconds and bytes during a call. clock: seconds."""

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)
    sent: int = 0
    received: int = 0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures the seconds of a step; another step of the same name adds to them."""
        began = self.clock()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock() - began

    @property
    def cost(self) -> Cost:
        """The cost so far."""
        return Cost(dict(self.seconds), self.sent, self.received)
