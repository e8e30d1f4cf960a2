"""Milliseconds of repeated calls."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_ms(action: Callable[[], object], repeats: int = 3) -> float:
    """Least milliseconds of `repeats` calls, after none to warm up: the first is one of them."""
    return min(_once(action) for _ in range(repeats))


def _once(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1e3
