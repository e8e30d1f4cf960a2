"""Ctrl-C for a test's child processes: what a parent ignores its children ignore, what it handles they have
by default."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts(handler: Callable[..., Any] | signal.Handlers = signal.default_int_handler) -> Iterator[None]:
    """Processes started inside can be interrupted, also where the tests run in the background or under nohup
    and inherit SIGINT as ignored; with signal.SIG_IGN they cannot."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
