"""Two connected links in this process, for tests of what two parties say to each other."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tacita.errors import PeerError

A = TypeVar("A")
B = TypeVar("B")


class SocketLink:
    """A handshake.Link over a socket, with a short timeout."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.settimeout(2.0)

    def send(self, data: bytes) -> None:
        try:
            self._end.sendall(data)
        except OSError as error:
            raise PeerError(str(error)) from None

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self._end.recv(count - len(data))
            except OSError as error:
                raise PeerError(str(error)) from None
            if not more:
                raise PeerError("the peer is gone")
            data += more
        return data

    def close(self) -> None:
        self._end.close()


def pair() -> tuple[SocketLink, SocketLink]:
    left, right = socket.socketpair()
    return SocketLink(left), SocketLink(right)


def both(
    client: Callable[[SocketLink], A], server: Callable[[SocketLink], B]
) -> tuple[A | Exception, B | Exception]:
    """Runs two parties; each result is what it returned or raised. An end is closed when its party is
    done."""
    ends = pair()
    with ThreadPoolExecutor(2) as pool:
        running = [
            pool.submit(_closing, party, end) for party, end in zip((client, server), ends, strict=True)
        ]
        return tuple(future.exception() or future.result() for future in running)


def _closing(party: Callable[[SocketLink], A], end: SocketLink) -> A:
    try:
        return party(end)
    finally:
        end.close()
