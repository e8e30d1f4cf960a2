"""uvicorn, set up for callers that nobody knows: TLS 1.3, and no connection that only sits there.

uvicorn closes a connection that is idle after an answer; one that never asks anything, or sends a head byte
by byte, it keeps. Here such a one is closed after `GREETING` seconds, so that idle connections cost their
sender more than the server.
"""

from __future__ import annotations

import socket
import ssl
from asyncio import TimerHandle
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacita.errors import InputError
from tacita.protocol.party import Identity
from tacita.service.two_party.options import UVICORN

GREETING = 20.0  # seconds that a connection may take to send a whole head, the first or another
KEEP_ALIVE = 30  # seconds between two calls of a connection
HEAD_BYTES = 32 << 10
BACKLOG = 512
GRACE = 5  # seconds that answers on the way get once workers have drained


class Patient(H11Protocol):
    """Closes a connection that has no call under way and does not begin one: silent from the start, slow with
    a head, or still sending a body that was refused. uvicorn itself closes one that is silent after an
    answer."""

    def connection_made(self, transport: Any) -> None:
        """A timer begins."""
        super().connection_made(transport)
        self._giving_up: TimerHandle | None = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It ends with the connection."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """It ends with a whole head, and bytes outside of a call begin it: none of them prolongs it."""
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """The head has come, and the connection is another protocol's from now on."""
        super().handle_websocket_upgrade(event)
        self._upgraded = True

    _upgraded = False

    def _watch(self) -> None:
        if self._upgraded or self._busy():
            self._stop()
        elif self._giving_up is None:
            self._giving_up = self.loop.call_later(GREETING, self._give_up)

    def _stop(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _busy(self) -> bool:
        cycle: Any = self.cycle  # None before the first call
        return cycle is not None and not cycle.response_complete

    def _give_up(self) -> None:
        if not self._busy():
            self.transport.close()


class Listening(uvicorn.Server):
    """closing: called at SIGTERM and Ctrl-C, before uvicorn waits for open connections. A second signal does
    not wait."""

    def __init__(self, config: uvicorn.Config, closing: Callable[[], None]) -> None:
        super().__init__(config)
        self._closing = closing

    def handle_exit(self, sig: int, frame: Any) -> None:
        """The signal's handler. It is not raised again afterwards, as uvicorn's own does: what follows is
        for the caller to end in order."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._closing()


def listening_socket(host: str, port: int) -> socket.socket:
    """Raises InputError for an address that cannot be listened on."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=kind, backlog=BACKLOG)
    except OSError as error:
        raise InputError(
            f"serve: cannot listen on {host}:{port} ({error.strerror})", hint="another address or port"
        ) from None


def config_of(app: FastAPI, identity: Identity | None) -> uvicorn.Config:
    """How it listens. identity: None for plain HTTP, on this machine alone. Raises InputError for files that
    are no certificate and key."""
    tls = {"ssl_certfile": identity.certificate, "ssl_keyfile": identity.key} if identity else {}
    config = uvicorn.Config(
        app,
        http=Patient,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=HEAD_BYTES,
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
