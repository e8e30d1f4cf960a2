"""How uvicorn must be started for the two-party protocol: with bounds of memory for each WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tacita.protocol.http.wire import FRAME_BYTES
from tacita.protocol.party import TIMEOUT

MOST_UNREAD = 4 * FRAME_BYTES  # bytes that wait for a client which reads none of them
KEEPALIVE = 30.0  # seconds between pings, so that what lies between keeps the connection


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSockets without two ways to hold memory and connections of the server: pings are answered
    whether or not the client reads the answers, and a connection is closed when the client has read what was
    sent before, however long that takes."""

    def handle_ping(self) -> None:
        """Answers, but not one that does not read."""
        if self.transport.get_write_buffer_size() > MOST_UNREAD:
            self.transport.abort()
        else:
            super().handle_ping()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """The application is through with the connection: it has seconds to end in due form."""
        super().on_task_complete(task)
        self.loop.call_later(self.close_timeout, self.transport.abort)


# Keywords of `uvicorn.Config`. Messages wait one at a time with this class, whatever `ws_max_queue` says; it
# is for those that look at it. Ciphertexts and shares do not compress.
UVICORN: Mapping[str, Any] = MappingProxyType(
    {
        "ws": BoundedWebSocket,
        "ws_max_size": FRAME_BYTES,
        "ws_max_queue": 1,
        "ws_ping_interval": KEEPALIVE,
        "ws_ping_timeout": TIMEOUT,  # a party that computes does not read
        "ws_per_message_deflate": False,
    }
)
