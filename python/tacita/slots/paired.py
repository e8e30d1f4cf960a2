"""Both parties of `shares` in one process, as one backend: for the conformance suite and for tests of circuits.

Every call runs on both parties' backends in two threads, each with its own half of the handles, as two programs would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacita.slots.base import Kind
from tacita.slots.shares import SharesBackend


@dataclass(frozen=True, eq=False)
class Pair:
    """The client's and the server's half of a result."""

    halves: tuple[Any, Any]


class PairedBackend:
    """A `Backend` made of (client, server). Handles are pairs; everything else both parties know."""

    def __init__(self, client: SharesBackend, server: SharesBackend) -> None:
        self._sides = (client, server)
        self._threads = ThreadPoolExecutor(2)
        self.slots = client.slots
        self.max_level = client.max_level

    def encrypt(self, values: npt.ArrayLike, level: int | None = None) -> Pair:
        """The client's values, shared; real arrays as shares of real numbers."""
        kind: Kind = "complex" if np.iscomplexobj(values) else "real"
        return Pair(self._both(lambda be, side: be.encrypt(values if side == 0 else None, level, kind)))

    def decrypt(self, ct: Pair) -> npt.NDArray[np.complex128]:
        """All slots, as the client learns them."""
        opened: npt.NDArray[np.complex128] = self._both(lambda be, side: be.decrypt(ct.halves[side]))[0]
        return opened

    def level(self, ct: Pair) -> int:
        return self._sides[0].level(ct.halves[0])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self._sides[0].stage(name), self._sides[1].stage(name):
            yield

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            def side(be: SharesBackend, k: int) -> Any:
                own = {key: _half(value, k) for key, value in kwargs.items()}
                return getattr(be, name)(*(_half(arg, k) for arg in args), **own)

            return _joined(*self._both(side))

        return run

    def _both(self, run: Callable[[SharesBackend, int], Any]) -> tuple[Any, Any]:
        futures = [self._threads.submit(run, be, side) for side, be in enumerate(self._sides)]
        client, server = (future.exception() for future in futures)
        if client or server:
            raise client or server  # type: ignore[misc]
        return futures[0].result(), futures[1].result()


def _half(value: Any, side: int) -> Any:
    """One party's view of an argument."""
    if isinstance(value, Pair):
        return value.halves[side]
    return [_half(v, side) for v in value] if isinstance(value, (list, tuple)) else value


def _joined(client: Any, server: Any) -> Any:
    if isinstance(client, list):
        return [_joined(c, s) for c, s in zip(client, server, strict=True)]
    return Pair((client, server))
