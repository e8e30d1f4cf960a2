"""`WS /v1/two-party?model=M`: a client is let in, or told why not before the connection is a WebSocket."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from fastapi import APIRouter, WebSocket
from fastapi.responses import Response

from tacita.errors import RefusedError, TacitaError
from tacita.protocol.http.wire import API, MOST_TEXT, PROBLEM, Problem
from tacita.protocol.party import TIMEOUT
from tacita.service.two_party.lane import Guest
from tacita.service.two_party.relay import relay

PATH = f"{API}/two-party"
SUBPROTOCOL = "tacita.two-party"  # that pages name, beside one with their token
RETRY = 5  # seconds after which a client that found no place may ask again


class DeniedError(TacitaError):
    """Why a client is not let in: status, 401, 403, 404, 429 or 503, and further headers of the answer."""

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
    """The route.

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
    """The answer to the upgrade, as problem+json."""
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
