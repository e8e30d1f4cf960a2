"""The ASGI application: the service behind its paths."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tacita.server.core.service import Service
from tacita.server.http import description, problems
from tacita.server.http.auth import Headers
from tacita.server.http.description import router as docs_page
from tacita.server.http.page import router as page
from tacita.server.http.routes import keys, models, operating, requests
from tacita.server.http.strict import Origins
from tacita.server.http.two_party import router as two_party
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
    for router in (
        models.router,
        keys.router,
        requests.router,
        operating.router,
        docs_page,
        two_party(service),
        page,  # the last: it knows files by name alone
    ):
        app.include_router(router)
    description.install(app)
    return app
