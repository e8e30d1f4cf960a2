"""When a request is sent again: after errors that pass, after a growing and partly random time, a few times.

>>> [Patience(chance=lambda: 1.0).delay(attempt) for attempt in (1, 2, 3, 6)]
[0.5, 1.0, 2.0, None]
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

PASSING = frozenset((429, 502, 503, 504))  # statuses that another attempt may change


@dataclass(frozen=True)
class Patience:
    """attempts: of one request. first, longest: seconds of the first wait, and of any that is our own choice;
    each is twice the one before, times a number between 1/2 and 1. most: seconds that a server may ask us to
    wait. sleep, chance, clock: of the process, or a test's."""

    attempts: int = 6
    first: float = 0.5
    longest: float = 30.0
    most: float = 300.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def delay(self, attempt: int, wished: float | None = None) -> float | None:
        """Seconds before the next attempt, after so many; None when there should be none. wished: the
        server's Retry-After."""
        if attempt >= self.attempts or (wished or 0.0) > self.most:
            return None
        own = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.chance() / 2)
        return max(own, wished or 0.0)


def seconds_of(header: str | None) -> float | None:
    """Of a Retry-After that counts seconds; None for a date, or anything else."""
    text = (header or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
