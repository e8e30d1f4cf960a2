"""`WS /v1/two-party?model=M`: a client is let in, or told why not before the connection is a WebSocket; from
then on bytes go over between it and the socket of its session, both ways at the same time.

What waits here is a chunk each way (`protocol.carrier`): whoever is slower holds the other back, as TCP
would. The channel's frames, limits and errors are the session's own; nothing is looked into.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from tacita.errors import RefusedError
from tacita.plans.wire import API, FRAME_BYTES
from tacita.server.http.problems import Fault, response
from tacita.server.sessions.messages import Client
from tacita.two_party.protocol.carrier import VIOLATION, FrameCarrier
from tacita.two_party.protocol.party import TIMEOUT

MOST_UNREAD = 4 * FRAME_BYTES  # bytes that wait for a client which reads none of them
KEEPALIVE = 30.0  # seconds between pings, so that what lies between keeps the connection
PATH = f"{API}/two-party"
SUBPROTOCOL = "tacita.two-party"  # that pages name, beside one with their token
RETRY = {"Retry-After": "5"}  # seconds after which a client that found no place may ask again
Open = Callable[[str, Client], Awaitable[socket.socket]]
Permitted = Callable[[WebSocket, str], Awaitable[Client]]


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSockets without two ways to hold memory and connections of the server: pings are answered
    whether or not the client reads the answers, and a connection is closed when the client has read what was
    sent before, however long that takes."""

    def handle_connect(self, event: Request) -> None:
        """Names itself to the application."""
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self.scope["connection"] = self  # type: ignore[typeddict-unknown-key]

    def carry(self, session: socket.socket, patience: float) -> FrameCarrier:
        """Carries messages from now on. Nothing may have come before the client was let in."""
        carrier = FrameCarrier(self, self.transport, session, patience, client=False)
        if self.conn.reader.buffer or not self.queue.empty():
            carrier.close(VIOLATION)
        return carrier

    def handle_ping(self) -> None:
        """Answers a ping, but aborts a connection whose client does not read."""
        if self.transport.get_write_buffer_size() > MOST_UNREAD:
            self.transport.abort()
        else:
            super().handle_ping()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Gives the connection, with which the application is done, `close_timeout` seconds to close."""
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


def router(open_session: Open, permitted: Permitted, patience: float = TIMEOUT) -> APIRouter:
    """Returns the router of the two-party socket.

    open_session: a session of this model for this client, `supervisor.Sessions.open`. permitted: who asks
    for this model, by the headers of the upgrade; raises Fault. A RefusedError of either becomes 503. Neither
    is told anything that the client sent after its headers. patience: seconds that a client may take to read
    what is sent at once.
    """
    routes = APIRouter()

    @routes.websocket(PATH)
    async def two_party(websocket: WebSocket) -> None:
        model = websocket.query_params.get("model", "")
        try:
            session = await open_session(model, await permitted(websocket, model))
        except RefusedError as error:
            fault = Fault(503, "refused", str(error), error.hint, RETRY)
            return await websocket.send_denial_response(response(fault))
        except Fault as fault:
            return await websocket.send_denial_response(response(fault))
        with session:
            offered = websocket.scope.get("subprotocols", ())
            await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
            await relay(websocket, session, patience)

    return routes


async def relay(websocket: WebSocket, session: socket.socket, patience: float) -> None:
    """Carries bytes both ways until either end is over; both are closed then. patience: seconds that a client
    may take to read what is sent at once. Raises nothing because of the client or the session."""
    session.setblocking(False)
    carrier = websocket.scope["connection"].carry(session, patience)
    gone = asyncio.create_task(_until_gone(websocket))
    try:
        await asyncio.wait({carrier.over, gone}, return_when=asyncio.FIRST_COMPLETED)
        if carrier.over.done():
            with suppress(WebSocketDisconnect, RuntimeError):  # it left meanwhile
                await websocket.close(carrier.over.result())
        else:
            await carrier.flush()
    finally:
        gone.cancel()
        carrier.stop()


async def _until_gone(websocket: WebSocket) -> None:
    """Waits until the client is gone; uvicorn receives nothing but its goodbye."""
    while (await websocket.receive())["type"] == "websocket.receive":
        pass
