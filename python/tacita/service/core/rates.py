"""How often somebody may call: a bucket that fills evenly and holds what a minute may bring."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MOST_NAMES = 10_000  # buckets; the one that was used longest ago goes first


@dataclass
class _Bucket:
    level: float
    since: float


class Rates:
    """clock: seconds that do not go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._buckets = clock, OrderedDict[str, _Bucket]()

    def wait(self, name: str, per_minute: int) -> float:
        """Takes a call from a name's bucket: 0, or the seconds until there is one again.

        >>> rates = Rates(lambda: 0.0)
        >>> [rates.wait("me", 2) for _ in range(3)]
        [0.0, 0.0, 30.0]
        """
        now, rate = self._clock(), per_minute / 60
        bucket = self._buckets.pop(name, None) or _Bucket(per_minute, now)
        bucket.level = min(per_minute, bucket.level + rate * (now - bucket.since))
        bucket.since = now
        self._keep(name, bucket)
        if bucket.level < 1:
            return (1 - bucket.level) / rate
        bucket.level -= 1
        return 0.0

    def _keep(self, name: str, bucket: _Bucket) -> None:
        self._buckets[name] = bucket
        if len(self._buckets) > MOST_NAMES:
            self._buckets.popitem(last=False)
