"""`WS /v1/two-party?model=M`: a client is let in, or told why not before the connection is a WebSocket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from fastapi.responses import Response

from tacita.errors import RefusedError, TacitaError
from tacita.plans.wire import API, FRAME_BYTES, MOST_TEXT, PROBLEM, Problem
from tacita.server.sessions.spec import Guest
from tacita.two_party.protocol.party import TIMEOUT

# Between a WebSocket and the socket of its session: bytes go over as they come, in both directions at the
# same time.
#
# What waits here is one message up and one chunk down: whoever is slower holds the other back, as TCP would.
# The channel's frames, limits and errors are the session's own; nothing is looked into.

CHUNK = 256 << 10  # bytes taken from the session at once; the socket holds about as many
OVER, NOT_BINARY, TOO_LARGE, BROKEN = 1000, 1003, 1009, 1011  # RFC 6455, section 7.4.1
Code = int | None  # with which to close; None: the client is gone


async def relay(websocket: WebSocket, session: socket.socket, patience: float) -> None:
    """Copies bytes both ways until either end is over; both are closed then. patience: seconds that a client
    may take to read what is sent at once. websocket: accepted. Raises nothing because of the client or the
    session."""
    session.setblocking(False)
    with session:
        up = asyncio.create_task(_up(websocket, session))
        down = asyncio.create_task(_down(websocket, session, patience))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            code = (up if up.done() else down).result()
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
    if code is not None:
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):  # it left meanwhile
            async with asyncio.timeout(patience):
                await websocket.close(code)


async def _up(websocket: WebSocket, session: socket.socket) -> Code:
    """Copies the client's messages to the session. Returns the code with which to close."""
    loop, open_ = asyncio.get_running_loop(), True
    while True:
        message = await websocket.receive()
        if message["type"] != "websocket.receive":
            return None
        data: bytes | None = message.get("bytes")
        if data is None:
            return NOT_BINARY
        if len(data) > FRAME_BYTES:
            return TOO_LARGE
        if open_:
            try:
                await loop.sock_sendall(session, data)
            except OSError:  # the session is over; what it said last is on its way down, and ends this
                open_ = False


async def _down(websocket: WebSocket, session: socket.socket, patience: float) -> Code:
    """Copies the session's bytes to the client. Returns the code with which to close."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = await loop.sock_recv(session, CHUNK)
        except OSError:
            return OVER
        if not data:
            return OVER
        try:
            async with asyncio.timeout(patience):
                await websocket.send_bytes(data)
        except (WebSocketDisconnect, RuntimeError):
            return None
        except TimeoutError:
            return BROKEN


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


Open = Callable[[str, Guest], Awaitable[socket.socket]]
Permitted = Callable[[WebSocket, str], Awaitable[Guest]]


def router(open_session: Open, permitted: Permitted, patience: float = TIMEOUT) -> APIRouter:
    """Returns the router of the two-party socket.

    open_session: a session of this model for this guest, `supervisor.Sessions.open`; a
    RefusedError of it becomes 503. permitted: who asks for this model, by the headers of the upgrade; raises
    DeniedError. Neither is told anything that the client sent after its headers. patience: seconds that a
    client may take to read what is sent at once.
    """
    routes = APIRouter()

    @routes.websocket(PATH)
    async def two_party(websocket: WebSocket) -> None:
        model = websocket.query_params.get("model", "")
        try:
            guest = await permitted(websocket, model)
            session = await open_session(model, guest)
        except (DeniedError, RefusedError) as error:
            await websocket.send_denial_response(denial(error))
            return
        with session:
            offered = websocket.scope.get("subprotocols", ())
            await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
            await relay(websocket, session, patience)

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
