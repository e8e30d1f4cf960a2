"""The ASGI application: the service behind its paths. The two-party socket is behind the same door as all
other calls: token, rate, quota, before the upgrade."""

from __future__ import annotations

import socket

from fastapi import APIRouter, FastAPI, WebSocket
from starlette.middleware.cors import CORSMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tacita.errors import TacitaError
from tacita.server.core.accounts import Account
from tacita.server.core.service import Service
from tacita.server.http import description, problems
from tacita.server.http.auth import Headers, caller, require_quota
from tacita.server.http.description import router as docs_page
from tacita.server.http.page import router as page
from tacita.server.http.problems import fault_of, not_found
from tacita.server.http.routes import keys, models, operating, requests
from tacita.server.http.strict import Origins
from tacita.server.http.two_party import router
from tacita.server.sessions.messages import Client
from tacita.version import __version__


def app_of(service: Service) -> FastAPI:
    """Returns the application of a service that has been started."""
    app = FastAPI(title="Tacita", version=__version__, docs_url=None, redoc_url=None)
    app.state.service = service
    problems.install(app)
    settings = service.settings
    if settings.origins:
        app.add_middleware(CORSMiddleware, settings.origins, allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(Origins, settings.origins, settings.hosts)
    app.add_middleware(Headers, lasting=settings.lasting)
    app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.proxies))
    for routes in (
        models.router,
        keys.router,
        requests.router,
        operating.router,
        docs_page,
        two_party(service),
        page,  # the last: it knows files by name alone
    ):
        app.include_router(routes)
    description.install(app)
    return app


def two_party(service: Service) -> APIRouter:
    """Returns the router of `WS /v1/two-party?model=M`."""

    async def permitted(websocket: WebSocket, model: str) -> Account:
        who = await caller(websocket)
        try:
            service.require_open()
        except TacitaError as error:
            raise fault_of(error) from None
        if model not in service.sessions:
            raise not_found("model with a two-party socket")
        require_quota(service, who)
        return Account(service.jobs, who, model)

    async def open_session(model: str, client: Client) -> socket.socket:
        return await service.sessions[model].open(client)

    return router(open_session, permitted)
