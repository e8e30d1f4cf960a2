"""The accepting of connections, bounded before TLS: in all, by address, and in seconds for the handshake.

asyncio's own server accepts all that come, logs every failure and tries its whole backlog again. Here one
connection is accepted at a time, the lobby that the bare port has decides who stays, and a failure pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from asyncio import Protocol, Task
from collections.abc import Callable
from typing import Any

from tacita.errors import InputError
from tacita.server.lobby import Lobby
from tacita.service.watch import logs

BACKLOG = 512
PAUSE = 0.2  # seconds after a failure to accept
CLOSING = 5.0  # seconds that a peer has to answer the end of TLS
MOST, OF_ADDRESS = 512, 64  # connections in all, and of one address
RESERVE = 128  # descriptors for the ledger, workers, and whatever else is no connection
EACH = 2  # descriptors of a connection: its own, and that of a file or a session


class Connection:
    """An accepted connection, in the lobby until its descriptor is given back."""

    def __init__(self, sock: socket.socket, address: str, lobby: Lobby) -> None:
        self.address, self._lobby = address, lobby
        self.socket = _ConnectionSocket(sock, lambda: lobby.ended(self))

    def close(self) -> None:
        """Hangs up; whoever holds the socket notices, and closes it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def hold(self, *, busy: bool) -> None:
        """While it is busy it cannot be sent away for another."""
        (self._lobby.leave if busy else self._lobby.reenter)(self)


class _ConnectionSocket(socket.socket):
    """Tells when its descriptor is given back, however many protocols it had."""

    def __init__(self, sock: socket.socket, closed: Callable[[], None]) -> None:
        super().__init__(fileno=sock.detach())
        self.setblocking(False)
        self._on_close = closed

    def close(self) -> None:
        super().close()
        self._on_close()


class Acceptor:
    """listener: bound. secure: None for plain TCP. protocol: of a connection, called once it is secured."""

    def __init__(
        self,
        listener: socket.socket,
        lobby: Lobby,
        secure: ssl.SSLContext | None,
        handshake: float,
        protocol: Callable[[Connection], Protocol],
    ) -> None:
        self._listener, self._lobby, self._protocol = listener, lobby, protocol
        self._tls: dict[str, Any] = {"ssl": secure}
        if secure:
            self._tls |= {"ssl_handshake_timeout": handshake, "ssl_shutdown_timeout": CLOSING}
        self._tasks: set[Task[None]] = set()

    def start(self) -> None:
        """Accepts from now on, in the running event loop."""
        self._listener.setblocking(False)
        self._begin(self._accept())

    def close(self) -> None:
        """Accepts no more, and gives up handshakes under way."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Returns when nothing of it runs any more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listener)
            except OSError as error:
                logs.warn("cannot accept connections", why=error.strerror)
                await asyncio.sleep(PAUSE)
                continue
            self._admit(accepted, address[0])
            await asyncio.sleep(0)  # what was sent away is closed before the next is accepted

    def _admit(self, accepted: socket.socket, address: str) -> None:
        connection = Connection(accepted, address, self._lobby)
        if self._lobby.enter(connection):
            self._begin(self._secure(connection))
        else:
            connection.socket.close()
            logs.warn("connection refused", why="too many")

    async def _secure(self, connection: Connection) -> None:
        """The handshake. What goes wrong there is the peer's affair."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            await loop.connect_accepted_socket(
                lambda: self._protocol(connection), connection.socket, **self._tls
            )


def lobby_of(descriptors: int, shared: tuple[str, ...] = ()) -> Lobby:
    """The lobby of a process that may have so many descriptors. shared: addresses of proxies, which carry
    the connections of many.

    >>> lobby_of(100_000).places, lobby_of(256).places
    (256, 32)
    """
    most = max(16, min(MOST, (descriptors - RESERVE) // EACH))
    return Lobby(most // 2, min(OF_ADDRESS, most // 2), shared)


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that has its address and does not listen yet: until the service is there, callers are refused
    at once. Raises InputError for an address that cannot be had."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(kind)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise _cannot(host, port, error) from None
    return found


def listen(bound: socket.socket) -> None:
    """Callers wait from now on. Raises InputError where another process listens there by now."""
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise _cannot(host, port, error) from None


def _cannot(host: str, port: int, error: OSError) -> InputError:
    return InputError(
        f"serve: cannot listen on {host}:{port} ({error.strerror})", hint="another address or port"
    )
