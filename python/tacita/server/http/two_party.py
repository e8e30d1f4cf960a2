"""The two-party socket, behind the same door as all other calls: token, rate, quota, before the upgrade."""

from __future__ import annotations

import socket

from fastapi import APIRouter, WebSocket

from tacita.errors import TacitaError
from tacita.server.core.accounts import Account
from tacita.server.core.service import Service
from tacita.server.http.auth import caller, require_quota
from tacita.server.http.problems import Fault, fault_of, not_found
from tacita.server.sessions.route import DeniedError
from tacita.server.sessions.route import router as route
from tacita.server.sessions.spec import Client
from tacita.server.store.tables import Who


def router(service: Service) -> APIRouter:
    """Returns the router of `WS /v1/two-party?model=M`."""

    async def permitted(websocket: WebSocket, model: str) -> Account:
        try:
            who = await _who(service, websocket, model)
            return Account(service.jobs, who, model)
        except Fault as fault:
            headers = dict(fault.headers)
            raise DeniedError(
                fault.status, fault.detail, hint=fault.hint, code=fault.code, headers=headers
            ) from None

    async def open_session(model: str, client: Client) -> socket.socket:
        return await service.sessions[model].open(client)

    return route(open_session, permitted)


async def _who(service: Service, websocket: WebSocket, model: str) -> Who:
    """Returns the client. Raises Fault."""
    who = await caller(websocket)
    try:
        service.require_open()
    except TacitaError as error:
        raise fault_of(error) from None
    if model not in service.sessions:
        raise not_found("model with a two-party socket")
    require_quota(service, who)
    return who
