"""Carries the two-party protocol over `WS /v1/two-party`.

A socket pair lies between: its one end is the engine's, which speaks the protocol over it as over TCP; a
thread carries bytes between the other and the WebSocket. TLS and the bearer token are those of the WebSocket.

The package websockets dials, answers pings and closes; messages are carried by callbacks of one event loop
(`protocol.carrier`), in both directions at the same time. (The package's own threads cannot: there a send
that waits for the server holds back what the server sends.) What waits here is a chunk each way.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
)

from tacita.client.http.channel import refused, seconds_of
from tacita.errors import InputError, LateError, PeerError, TacitaError
from tacita.plans.wire import FRAME_BYTES
from tacita.two_party.protocol.carrier import CHUNK, VIOLATION, FrameCarrier
from tacita.two_party.protocol.party import TIMEOUT, Party, over_socket
from tacita.version import __version__

CONNECTING = 30.0  # seconds for the connection, TLS and the upgrade
KEEPALIVE = 30.0  # seconds between pings
FAREWELL = 10.0  # seconds for the server to say goodbye


def dial(
    url: str,
    *,
    token: str | None,
    context: ssl.SSLContext | None,
    timeout: float = TIMEOUT,
    threads: int = 0,
) -> Party:
    """Connects as the client; returns once the server has admitted it. url: as `trust.Address.socket` makes
    it of a checked address. token: None for a server that asks for none. context: whom to trust; None for a
    connection without TLS. timeout: seconds of silence after which the server is given up. threads: 0 for all
    cores. Costs this process 2 ms of a core a megabyte and 0.2 ms a round beside bare TLS.

    Raises InputError for what cannot be dialled, RefusedError when the server does not admit this client,
    LateError, PeerError.
    """
    ours, theirs = socket.socketpair()
    try:
        carrier = _Carrier(url, urlsplit(url).netloc, token, context, theirs, timeout).start()
        return WebSocketParty(over_socket(ours, client=True, timeout=timeout, threads=threads), carrier)
    except BaseException:
        ours.close()
        raise


class WebSocketParty(Party):
    """A party over a WebSocket, whose `close` waits until its last bytes are sent."""

    def __init__(self, party: Party, carrier: threading.Thread) -> None:
        super().__init__(party.native)
        self._carrier = carrier

    def close(self) -> None:
        """Writes what is queued and closes the WebSocket, in at most twice the time of a closing handshake; a
        server that is gone already is no error."""
        super().close()
        self._carrier.join(2 * FAREWELL)


def refusal(error: Exception, host: str) -> TacitaError:
    """Returns the error to raise for a failed connection. host: without the token and the query."""
    match error:
        case InvalidStatus():
            answer = error.response
            after = seconds_of(answer.headers.get("Retry-After"))
            return refused(f"connect: {host}", answer.status_code, bytes(answer.body or b""), after)
        case TimeoutError():
            return LateError(f"connect: {host} did not answer within {CONNECTING:.0f} s", hint="try again")
        case ssl.SSLCertVerificationError():
            return PeerError(
                f"connect: {host} is not trusted ({error.verify_message})",
                hint="trust its certificate, or dial it by a name that the certificate is for",
            )
        case InvalidURI() | InvalidProxy():
            return InputError(f"connect: {host} cannot be dialled so", hint="https://HOST[:PORT]/...")
        case OSError():
            return PeerError(f"connect: {host}: {error.strerror or 'no connection'}", hint="is it running?")
        case InvalidHandshake() | EOFError():
            return PeerError(
                f"connect: {host} does not speak our protocol", hint="is it a tacita server? look at the URL"
            )
    return PeerError(f"connect: {host}: {type(error).__name__}", hint="a defect: please report it")


class Direct(connect):
    """Connects without following redirects: a token must not reach another server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Returns the redirect as an error."""
        return exc


@dataclass(frozen=True)
class _Carrier:
    """Carries bytes between a WebSocket and the engine's socket, which it closes. host: as errors name it."""

    url: str
    host: str
    token: str | None = field(repr=False)
    context: ssl.SSLContext | None
    engine: socket.socket
    idle_timeout: float
    ready: Future[None] = field(default_factory=Future)
    given_up: threading.Event = field(default_factory=threading.Event)

    def start(self) -> threading.Thread:
        """Starts the thread, and returns it once the server has admitted this client. Raises what `refusal`
        makes of a failure."""
        thread = threading.Thread(target=self._run, name="tacita-websocket", daemon=True)
        thread.start()
        try:
            self.ready.result()
        except BaseException:
            self.given_up.set()  # Ctrl-C: the thread closes what it may still open
            raise
        return thread

    def _run(self) -> None:
        self.engine.setblocking(False)
        with self.engine:
            asyncio.run(self._session())

    async def _session(self) -> None:
        try:
            websocket = await self._connect()
        except Exception as error:
            self.ready.set_exception(refusal(error, self.host))
            return
        self.ready.set_result(None)
        if self.given_up.is_set():
            websocket.transport.abort()
        else:
            await _carry(websocket, self.engine, self.idle_timeout)

    async def _connect(self) -> ClientConnection:
        return await Direct(
            self.url,
            additional_headers={"Authorization": f"Bearer {self.token}"} if self.token else {},
            user_agent_header=f"tacita/{__version__}",
            compression=None,
            open_timeout=min(CONNECTING, self.idle_timeout),
            close_timeout=FAREWELL,
            ping_interval=KEEPALIVE,
            ping_timeout=self.idle_timeout,  # a server that computes does not read
            max_size=FRAME_BYTES,
            max_queue=1,
            write_limit=CHUNK,
            ssl=self.context,
        )


async def _carry(websocket: ClientConnection, engine: socket.socket, patience: float) -> None:
    """Carries bytes both ways until either end closes."""
    carrier = FrameCarrier(websocket, websocket.transport, engine, patience, client=True)
    if websocket.protocol.reader.buffer or len(websocket.recv_messages.frames):
        carrier.close(VIOLATION)  # a server speaks second
    gone: asyncio.Future[None] = asyncio.ensure_future(websocket.wait_closed())
    ends: set[asyncio.Future[Any]] = {carrier.over, gone}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if carrier.over.done():
            await websocket.close(carrier.over.result())
        else:
            await carrier.flush()
    finally:
        gone.cancel()
        carrier.stop()
        websocket.transport.abort()
