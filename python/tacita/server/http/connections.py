"""The accepting of connections, bounded before TLS: in all, by address, and in seconds for the handshake.

asyncio's own server accepts all that come, logs every failure and tries its whole backlog again. Here one
connection is accepted at a time, the lobby that the bare port has decides who stays, and a failure pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from asyncio import Protocol, Task
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

import h11
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from tacita.errors import InputError
from tacita.server.http.problems import Fault, response
from tacita.server.watch import logs
from tacita.two_party.admission import Lobby

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
        """Takes the connection out of the lobby while it is busy, so that it is not closed to make room for
        another, and puts it back afterwards."""
        (self._lobby.leave if busy else self._lobby.reenter)(self)


class _ConnectionSocket(socket.socket):
    """A socket that calls `closed` when its descriptor is given back, however many protocols it had."""

    def __init__(self, sock: socket.socket, closed: Callable[[], None]) -> None:
        super().__init__(fileno=sock.detach())
        self.setblocking(False)
        self._on_close = closed

    def close(self) -> None:
        super().close()
        self._on_close()


class Acceptor:
    """Accepts connections. listener: a bound socket. secure: None for plain TCP. protocol: of a connection,
    called once it is secured."""

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
        """Waits until none of its tasks runs any more."""
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
        """Makes the TLS handshake. What goes wrong there is the peer's affair."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            await loop.connect_accepted_socket(
                lambda: self._protocol(connection), connection.socket, **self._tls
            )


def lobby_of(descriptors: int, shared: tuple[str, ...] = ()) -> Lobby:
    """Returns the lobby of a process that may have so many descriptors. shared: addresses of proxies, which
    carry the connections of many.

    >>> lobby_of(100_000).places, lobby_of(256).places
    (256, 32)
    """
    most = max(16, min(MOST, (descriptors - RESERVE) // EACH))
    return Lobby(most // 2, min(OF_ADDRESS, most // 2), shared)


def bound_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that has its address and does not listen yet: until the service is there, callers are
    refused at once. Raises InputError for an address that cannot be had."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(kind)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise _cannot(host, port, error) from None
    return bound


def listen(bound: socket.socket) -> None:
    """Lets callers wait from now on. Raises InputError where another process listens there by now."""
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise _cannot(host, port, error) from None


def _cannot(host: str, port: int, error: OSError) -> InputError:
    return InputError(
        f"serve: cannot listen on {host}:{port} ({error.strerror})", hint="another address or port"
    )


# Heads of calls that two readers might read differently: refused before h11 takes them.
#
# RFC 9112 lets a server take what is refused here: a length beside `Transfer-Encoding`, and values folded
# over several lines (sections 6.3 and 5.2). Behind a proxy, what one of the two takes otherwise is a second
# call inside a first.

HEAD_BYTES = 32 << 10
_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\n[ \t]")
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:", re.IGNORECASE)
_CODING = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)


class StrictConnection(h11.Connection):
    """The server's end of a connection. A head that ends has HEAD_BYTES at most, however it came; h11 itself
    bounds one that does not end."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Returns what h11 returns. Raises RemoteProtocolError also for what `_require_plain` refuses."""
        if self.their_state is h11.IDLE:
            _require_plain(self.trailing_data[0])
        return super().next_event()


def _require_plain(data: bytes) -> None:
    """Raises RemoteProtocolError for a head that two readers might read differently. data: what came of the
    head so far, and perhaps of its body."""
    end = _END.search(data)
    if end is None:
        return
    head = data[: end.start()]
    if len(head) > HEAD_BYTES:
        raise h11.RemoteProtocolError("head too long")
    if _FOLD.search(head):
        raise h11.RemoteProtocolError("obsolete line folding")
    if _LENGTH.search(head) and _CODING.search(head):
        raise h11.RemoteProtocolError("Content-Length beside Transfer-Encoding")


# Which pages may call, and under which names: a browser lets every page that it shows call every address
# that it reaches, those of its own machine included, and says only which page it was (`Origin`).
#
# A plain ASGI layer, as `auth.Headers` is, for calls and WebSockets.

SECURE = {"ws": "http", "wss": "https"}  # a WebSocket's scheme -> that of pages beside it


class Origins:
    """Refuses calls of foreign pages. app: what answers. named: origins that may call beside the server's
    own. hosts: names that `Host` may have, None for any: a page whose name was bound to this machine's
    address shows its own name there."""

    def __init__(self, app: ASGIApp, named: Collection[str], hosts: Collection[str] | None) -> None:
        self._app, self._named, self._hosts = app, frozenset(named), hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call, or sends 403 or 421 in its place."""
        fault = self._fault(HTTPConnection(scope)) if scope["type"] in ("http", "websocket") else None
        await (response(fault) if fault else self._app)(scope, receive, send)

    def _fault(self, connection: HTTPConnection) -> Fault | None:
        host, origin = connection.headers.get("host", ""), connection.headers.get("origin")
        if self._hosts is not None and _name(host) not in self._hosts:
            return Fault(421, "wrong-host", "this server has another name", "its operator names it by --name")
        scheme = connection.scope["scheme"]
        if origin in (None, f"{SECURE.get(scheme, scheme)}://{host}") or origin in self._named:
            return None
        return Fault(
            403, "foreign-origin", "a page of another site", "its operator names sites by [service] origin"
        )


def origin_of(text: str) -> str:
    """Returns an origin as browsers write it. Raises InputError for another text."""
    parts = urlsplit(text)
    if (
        parts.scheme not in ("http", "https")
        or f"{parts.scheme}://{parts.netloc}" != text
        or not parts.netloc
    ):
        raise InputError(
            f"serve: {text!r:.80} is not an origin",
            hint="[service] origin: https://NAME or https://NAME:PORT",
        )
    return text.lower()


def hosts_of(host: str, names: Collection[str], origins: Collection[str]) -> frozenset[str]:
    """Returns the names of a server that is for its own machine. host: where it listens. names: further
    names. origins: those of a proxy before it."""
    own = {"localhost", "127.0.0.1", "::1", host, *names, *filter(None, map(_name_of, origins))}
    return frozenset(name.lower() for name in own)


def _name(host: str) -> str:
    """Returns the name in a Host header, without the port; empty where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _name_of(origin: str) -> str | None:
    return urlsplit(origin).hostname
