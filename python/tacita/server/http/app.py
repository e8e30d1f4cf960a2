"""The ASGI application: the service behind its paths, and the page. The two-party socket is behind the same
door as all other calls: token, rate, quota, before the upgrade."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fastapi import APIRouter, FastAPI, WebSocket
from fastapi.responses import FileResponse, RedirectResponse, Response
from starlette.middleware.cors import CORSMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tacita.data import WEB
from tacita.errors import TacitaError
from tacita.server.core.accounts import Account
from tacita.server.core.service import Service
from tacita.server.http import description, keys, models, problems, requests
from tacita.server.http.auth import Headers, caller, require_quota
from tacita.server.http.description import router as docs_page
from tacita.server.http.problems import fault_of, not_found
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
        models.operating,
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


# The page at `/`: clients of the service in a browser, as `make web` built it into the package. Its files
# have the headers that come with them: nothing from elsewhere, no inline code, and an origin of its own,
# without which browsers give no shared memory.

page = APIRouter(include_in_schema=False)
FILES = {"index.html": "text/html; charset=utf-8", "style.css": "text/css", "tacita.wasm": "application/wasm"}
FILES |= dict.fromkeys(("page.js", "worker.js", "socket.js", "files.js"), "text/javascript")
PACKED = ".br"  # Brotli, which every browser with shared memory takes


@page.get("/")
async def index() -> Response:
    """Returns the page, or where it was not built, redirects to that of the API."""
    return _file("index.html") if (WEB / "index.html").is_file() else RedirectResponse("/docs")


@page.get("/{name}")
async def file(name: str) -> Response:
    if name not in FILES or not any((WEB / each).is_file() for each in (name, name + PACKED)):
        raise not_found("page")
    return _file(name)


def _file(name: str) -> FileResponse:
    headers, path = {**_headers(WEB), "Cache-Control": "no-cache"}, WEB / name
    if not path.is_file():
        path, headers = WEB / (name + PACKED), headers | {"Content-Encoding": "br"}
    return FileResponse(path, media_type=FILES[name], headers=headers)


@cache
def _headers(folder: Path) -> Mapping[str, str]:
    headers = json.loads((folder / "headers.json").read_text(encoding="utf-8"))
    return {str(name): str(value) for name, value in headers.items()}
