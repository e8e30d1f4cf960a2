"""`WS /v1/two-party?model=M`: a client is let in, or told why not before the connection is a WebSocket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from fastapi.responses import Response
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tacita.errors import RefusedError, TacitaError
from tacita.plans.wire import API, FRAME_BYTES, MOST_TEXT, PROBLEM, Problem
from tacita.server.sessions.relay import Code, relay
from tacita.server.sessions.spec import Client
from tacita.two_party.protocol.party import TIMEOUT

NOT_BINARY, TOO_LARGE = 1003, 1009  # RFC 6455, section 7.4.1


class WebSocketConnection:
    """A WebSocket that was accepted, as a `relay.ByteStream`."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def receive(self) -> bytes | Code:
        """Returns the next binary message, or with which code to close."""
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            return None
        data: bytes | None = message.get("bytes")
        if data is None:
            return NOT_BINARY
        return data if len(data) <= FRAME_BYTES else TOO_LARGE

    async def send(self, data: bytes) -> bool:
        """Sends a binary message. Returns False for a client that is gone."""
        try:
            await self._websocket.send_bytes(data)
        except (WebSocketDisconnect, RuntimeError):
            return False
        return True

    async def close(self, code: int) -> None:
        """Closes the WebSocket."""
        with suppress(WebSocketDisconnect, RuntimeError):  # it left meanwhile
            await self._websocket.close(code)


# How uvicorn must be started for the two-party protocol: with bounds of memory for each WebSocket.

MOST_UNREAD = 4 * FRAME_BYTES  # bytes that wait for a client which reads none of them
KEEPALIVE = 30.0  # seconds between pings, so that what lies between keeps the connection


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSockets without two ways to hold memory and connections of the server: pings are answered
    whether or not the client reads the answers, and a connection is closed when the client has read what was
    sent before, however long that takes."""

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


PATH = f"{API}/two-party"
SUBPROTOCOL = "tacita.two-party"  # that pages name, beside one with their token
RETRY = 5  # seconds after which a client that found no place may ask again


class DeniedError(TacitaError):
    """Says why a client is not let in: status, 401, 403, 404, 429 or 503, and headers of the answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        hint: str = "",
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.code, self.headers = status, code, dict(headers or {})


Open = Callable[[str, Client], Awaitable[socket.socket]]
Permitted = Callable[[WebSocket, str], Awaitable[Client]]


def router(open_session: Open, permitted: Permitted, patience: float = TIMEOUT) -> APIRouter:
    """Returns the router of the two-party socket.

    open_session: a session of this model for this client, `supervisor.Sessions.open`; a
    RefusedError of it becomes 503. permitted: who asks for this model, by the headers of the upgrade; raises
    DeniedError. Neither is told anything that the client sent after its headers. patience: seconds that a
    client may take to read what is sent at once.
    """
    routes = APIRouter()

    @routes.websocket(PATH)
    async def two_party(websocket: WebSocket) -> None:
        model = websocket.query_params.get("model", "")
        try:
            client = await permitted(websocket, model)
            session = await open_session(model, client)
        except (DeniedError, RefusedError) as error:
            await websocket.send_denial_response(denial(error))
            return
        with session:
            offered = websocket.scope.get("subprotocols", ())
            await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
            await relay(WebSocketConnection(websocket), session, patience)

    return routes


def denial(error: DeniedError | RefusedError) -> Response:
    """Returns the answer to the upgrade, as problem+json."""
    status, code, headers = HTTPStatus.SERVICE_UNAVAILABLE.value, "refused", {"Retry-After": str(RETRY)}
    if isinstance(error, DeniedError):
        status, code, headers = error.status, error.code, error.headers
    problem = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=str(error)[:MOST_TEXT],
        hint=error.hint[:MOST_TEXT],
        code=code,
    )
    return Response(problem.model_dump_json(), status, headers, media_type=PROBLEM)
