"""The engine's two-party object as the child process needs it."""

from __future__ import annotations

from collections.abc import Callable

from tacita.measure.two_party.child import Order, Session


def listen(order: Order, announce: Callable[[int, str], None]) -> Session:
    raise NotImplementedError


def connect(order: Order, port: int, certificate: str) -> Session:
    raise NotImplementedError
