"""Connections of the service, bounded before TLS: in all, by address, and in seconds for the handshake.

asyncio's own server accepts all that come, logs every failure and tries its whole backlog again. Here one
connection is accepted at a time, `PendingConnections` decides who stays, and a failure pauses.

A connection waits until it is admitted. When all places are taken, the oldest that waits, of the address that
has the most, makes room. So a client that greets as fast as honest ones do gets through however many
connections say nothing, unless hundreds come while it greets.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import ssl
import threading
from asyncio import Task
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

from tacita.errors import InputError
from tacita.server import logs
from tacita.two_party.protocol.party import Identity

SUBNET = 64  # bits of an IPv6 address that a subscriber cannot change
BACKLOG = 512
PAUSE = 0.2  # seconds after a failure to accept
CLOSING = 5.0  # seconds that a peer has to answer the end of TLS
HANDSHAKE_SECONDS = 20.0  # seconds that a handshake may take
MOST, OF_ADDRESS = 512, 64  # connections in all, and of one address
RESERVE = 128  # descriptors for the ledger, workers, and whatever else is no connection
LOOK_SECONDS = 5.0  # between two looks at the files of a certificate
EACH = 2  # descriptors of a connection: its own, and that of a file or a session


def network(address: str) -> str:
    """Returns what counts as one address: IPv4 by all its bits, IPv6 by its first 64.

    Raises ValueError for a text that is no address.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is None:
            bits = 128 if ip.is_loopback else SUBNET
            return str(ipaddress.ip_network((ip, bits), strict=False))
        ip = ip.ipv4_mapped
    return str(ipaddress.ip_network(ip))


PLACES = 256  # a file descriptor, two threads and at most 1 MB in the queue each


class Pending(Protocol):
    """A connection by its peer's address, or whatever else counts as one, which any thread can close."""

    @property
    def address(self) -> str: ...

    def close(self) -> None:
        """Hangs up at once."""


class PendingConnections:
    """Holds the connections that wait to be admitted. Thread-safe. places: connections that may wait; twice
    as many may be there in all. per_address: those of one address, None for any number. shared: addresses of
    proxies, which have no such bound. group: what counts as one address."""

    def __init__(
        self,
        places: int = PLACES,
        per_address: int | None = None,
        shared: Collection[str] = (),
        group: Callable[[str], str] = network,
    ) -> None:
        self.places, self.per_address, self._group = places, per_address, group
        self._shared = {group(address) for address in shared}
        self._lock = threading.Lock()
        self._open: dict[Pending, str] = {}  # with what counts as its address; "" for one that was sent away
        self._waiting: dict[Pending, str] = {}  # of these, in order of arrival

    def enter(self, connection: Pending) -> bool:
        """Takes a place, somebody else's if need be. False: not even that, and the connection is closed."""
        with self._lock:
            where = self._group(connection.address)
            if not self._make_room(where):
                connection.close()
                return False
            self._open[connection] = self._waiting[connection] = where
            return True

    def leave(self, connection: Pending) -> None:
        """Ends a connection's wait: it was admitted or is over, and can no longer be closed to make room."""
        with self._lock:
            self._waiting.pop(connection, None)

    def reenter(self, connection: Pending) -> None:
        """Lets a connection wait again, behind all others: what it was admitted for is done."""
        with self._lock:
            if where := self._open.get(connection):
                self._waiting.setdefault(connection, where)

    def ended(self, connection: Pending) -> None:
        """Frees what a connection held that is over."""
        with self._lock:
            self._waiting.pop(connection, None)
            self._open.pop(connection, None)

    def _make_room(self, where: str) -> bool:
        if len(self._open) >= 2 * self.places:
            return False
        if self._is_full(where):
            return self._evict(where)
        if len(self._waiting) >= self.places:
            ((crowd, _),) = Counter(self._waiting.values()).most_common(1)
            return self._evict(crowd)
        return True

    def _is_full(self, where: str) -> bool:
        if self.per_address is None or where in self._shared:
            return False
        return Counter(self._open.values())[where] >= self.per_address

    def _evict(self, where: str) -> bool:
        """Closes the oldest connection of this address that waits. False where none does."""
        oldest = next((connection for connection, other in self._waiting.items() if other == where), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        self._open[oldest] = ""
        oldest.close()
        return True


class Connection:
    """An accepted connection, pending until its descriptor is given back."""

    def __init__(self, sock: socket.socket, address: str, pending: PendingConnections) -> None:
        self.address, self._pending = address, pending
        self.socket = _ConnectionSocket(sock, lambda: pending.ended(self))

    def close(self) -> None:
        """Hangs up; whoever holds the socket notices, and closes it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def hold(self, *, busy: bool) -> None:
        """Takes the connection out of those that wait while it is busy, so that it is not closed to make room
        for another, and puts it back afterwards."""
        (self._pending.leave if busy else self._pending.reenter)(self)


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
    called once it is secured. handshake: seconds that one may take."""

    def __init__(
        self,
        listener: socket.socket,
        pending: PendingConnections,
        secure: ssl.SSLContext | None,
        protocol: Callable[[Connection], asyncio.BaseProtocol],
        handshake: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._listener, self._pending, self._protocol = listener, pending, protocol
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
        connection = Connection(accepted, address, self._pending)
        if self._pending.enter(connection):
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


def pending_of(
    descriptors: int, shared: Collection[str] = (), of_address: int = OF_ADDRESS
) -> PendingConnections:
    """Returns the connections of a process that may have so many descriptors. shared: addresses of proxies,
    which carry the connections of many. of_address: of any other.

    >>> pending_of(100_000).places, pending_of(256).places
    (256, 32)
    """
    most = max(16, min(MOST, (descriptors - RESERVE) // EACH))
    return PendingConnections(most // 2, min(of_address, most // 2), shared)


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


class Renewal:
    """Certificate and key of a TLS context, read anew for connections that come from then on. loaded: the
    certificate that is shown now, PEM. Raises OSError for files that are not there."""

    def __init__(self, context: ssl.SSLContext, identity: Identity) -> None:
        self._context, self._files = context, (identity.certificate, identity.key)
        self.loaded, self._marks = identity.certificate.read_bytes(), self._look()

    def renew(self) -> None:
        """Reads both files. The old ones stay where these are no certificate and its key."""
        try:
            loaded = self._files[0].read_bytes()
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
            self._context.load_cert_chain(*self._files)  # which may be others by now
        except OSError as error:
            logs.warn("certificate not renewed", why=type(error).__name__)
            return
        self.loaded = loaded
        logs.say("certificate renewed")

    def look(self) -> None:
        """Reads both files where one is another than at the last look."""
        before, self._marks = self._marks, self._look()
        if self._marks != before:
            self.renew()

    def _look(self) -> list[tuple[int, int, int]]:
        marks = list[tuple[int, int, int]]()
        for path in self._files:
            with contextlib.suppress(OSError):  # it is being replaced
                stat = path.stat()
                marks.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return marks


@contextlib.contextmanager
def renewing(context: ssl.SSLContext | None, identity: Identity | None) -> Iterator[Renewal | None]:
    """Reads a certificate anew at SIGHUP and when its files change, while the block lasts. Needs a loop."""
    if context is None or identity is None:
        yield None
        return
    renewal = Renewal(context, identity)

    async def follow() -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            renewal.look()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, renewal.renew)
    task = loop.create_task(follow())
    try:
        yield renewal
    finally:
        task.cancel()
