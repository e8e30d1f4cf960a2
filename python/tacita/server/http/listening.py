"""uvicorn, set up for callers that nobody knows: TLS 1.3, and no connection that only sits there.

uvicorn closes a connection that is idle after an answer; one that never asks anything, sends a head byte by
byte, or does not read its answer, it keeps. Here such a one is closed, so that idle connections cost their
sender more than the server. Connections are accepted by `server.connections`.
"""

from __future__ import annotations

import socket
import ssl
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import uvicorn
from cryptography import x509
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacita.errors import InputError
from tacita.server.connections import HANDSHAKE_SECONDS, Acceptor, Connection, PendingConnections
from tacita.server.http.strict import StrictConnection
from tacita.server.http.two_party import UVICORN
from tacita.server.store.bodies import MinRate
from tacita.two_party.protocol.party import Identity

KEEP_ALIVE = 30  # seconds between two calls of a connection
GRACE = 5  # seconds that answers on the way get once workers have drained


class TimeoutProtocol(H11Protocol):
    """Closes a connection that has no call under way and does not begin one: silent from the start, slow with
    a head, or still sending a body that was refused. uvicorn itself closes one that is silent after an
    answer. connection: which is told whether a call is under way."""

    transport: Any  # a MinRateTransport, or a WebSocket's

    def __init__(
        self, config: uvicorn.Config, server: uvicorn.Server, connection: Connection, min_rate: MinRate
    ) -> None:
        super().__init__(config, server.server_state, server.lifespan.state)
        self.conn = StrictConnection()
        self._connection, self._min_rate = connection, min_rate
        self._timeout: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        limited: Any = MinRateTransport(transport, self.loop, self._min_rate, self._is_sending)
        super().connection_made(limited)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self.transport.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stops the timer at a whole head, and starts it at bytes outside of a call: none prolongs it."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Tells the connection that a call is over; the next one may have come already."""
        super().on_response_complete()
        self._connection.hold(busy=self._busy())

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Stops the timer: the head has come, and the connection is another protocol's from now on."""
        self.transport = self.transport.release()
        super().handle_websocket_upgrade(event)
        self._upgraded = True

    _upgraded = False

    def _watch(self) -> None:
        busy = self._upgraded or self._busy()
        self._connection.hold(busy=busy)
        if busy:
            self._stop()
        elif self._timeout is None:
            self._timeout = self.loop.call_later(HANDSHAKE_SECONDS, self._close_idle)

    def _stop(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _busy(self) -> bool:
        cycle: Any = self.cycle  # None before the first call
        return cycle is not None and not cycle.response_complete

    def _is_sending(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY

    def _close_idle(self) -> None:
        if not self._busy():
            self.transport.close()


class HttpServer(uvicorn.Server):
    """A uvicorn server with acceptors of its own. closing: called at SIGTERM and Ctrl-C, before uvicorn waits
    for open connections. A second signal does not wait. pending: its connections. min_rate: at which answers
    must be read."""

    servers: Any  # as uvicorn ends them: acceptors

    def __init__(
        self,
        config: uvicorn.Config,
        closing: Callable[[], None],
        pending: PendingConnections,
        min_rate: MinRate,
    ) -> None:
        super().__init__(config)
        self._closing, self._pending, self._min_rate = closing, pending, min_rate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts from these sockets in place of uvicorn."""
        await super().startup(sockets=[])
        self.servers = [
            Acceptor(each, self._pending, self.config.ssl, self._protocol, HANDSHAKE_SECONDS)
            for each in sockets or ()
        ]
        for each in self.servers:
            each.start()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Handles a signal. It is not raised again afterwards, as uvicorn's own does: what follows is for the
        caller to end in order."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._closing()

    def _protocol(self, connection: Connection) -> TimeoutProtocol:
        return TimeoutProtocol(self.config, self, connection, self._min_rate)


def is_self_signed(certificate: Path) -> bool:
    """Returns whether no authority signed it, so that browsers will hardly trust the next one. Raises
    InputError for a file that is no certificate."""
    try:
        parsed = x509.load_pem_x509_certificate(certificate.read_bytes())
    except ValueError:
        raise InputError(f"{certificate}: no certificate", hint="a PEM file") from None
    return parsed.issuer == parsed.subject


def expiry_of(certificate: bytes) -> float:
    """Returns the Unix seconds after which a certificate, PEM, is not valid."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()


def config_of(app: FastAPI, identity: Identity | None) -> uvicorn.Config:
    """Returns uvicorn's configuration. identity: None for plain HTTP, on this machine alone. Raises
    InputError for files that are no certificate and key."""
    tls = {"ssl_certfile": identity.certificate, "ssl_keyfile": identity.key} if identity else {}
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        http="h11",
        **UVICORN,
        **tls,  # type: ignore[arg-type]
    )
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise InputError(f"certificate and key: {error}", hint="two PEM files that belong together") from None
    if config.ssl:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
    return config


# The least rate at which answers must be read, and the end of a connection whose peer still sends.

LOOKS = 4  # in the seconds of silence that a reader may take
LINGER = 1.0  # seconds in which what still comes is thrown away, so that the answer before it arrives


class MinRateTransport:
    """A transport as uvicorn uses it, which is aborted when what was written is read too slowly: nothing for
    `min_rate.patience` seconds, or less than `min_rate.least_rate` on the whole while something waits.

    sending: whether the peer is in the middle of a body. Closing then waits for LINGER: a system that closes
    a connection with unread bytes resets it, and the peer loses the answer.
    """

    def __init__(
        self, transport: Any, loop: AbstractEventLoop, min_rate: MinRate, sending: Callable[[], bool]
    ) -> None:
        self._transport, self._loop, self._min_rate, self._sending = transport, loop, min_rate, sending
        self._timer: TimerHandle | None = None
        self._closing = False
        self._written = 0
        self._since = self._moved = 0.0  # seconds: when bytes began to wait, and when some last went
        self._first = self._last = 0  # bytes that had gone then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes as asyncio's transports do, and begins to watch how fast the peer reads."""
        self._written += len(data)
        self._transport.write(data)
        if self._timer is None and self._transport.get_write_buffer_size():
            self._since = self._moved = self._loop.time()
            self._first = self._last = self._gone()
            self._look_later()

    def is_closing(self) -> bool:
        return self._closing or bool(self._transport.is_closing())

    def close(self) -> None:
        """Closes the transport as asyncio's transports do; what waits must be read as fast as before."""
        if not self._closing and self._sending():
            self._transport.resume_reading()
            self._loop.call_later(LINGER, self._transport.close)
        elif not self._closing:
            self._transport.close()
        self._closing = True

    def release(self) -> Any:
        """Returns the transport, for a protocol with limits of its own."""
        self.stop()
        return self._transport

    def stop(self) -> None:
        """Stops watching: the connection is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _gone(self) -> int:
        return self._written - int(self._transport.get_write_buffer_size())

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._min_rate.patience / LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._transport.get_write_buffer_size():
            return
        now, gone = self._loop.time(), self._gone()
        if gone > self._last:
            self._last, self._moved = gone, now
        silent = now - self._moved >= self._min_rate.patience
        if silent or now - self._since > self._min_rate.whole(gone - self._first):
            self._transport.abort()
        else:
            self._look_later()
