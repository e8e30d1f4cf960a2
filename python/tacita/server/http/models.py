"""What there is to ask, and the public part of each model, cached by its hash; and for those who run the
server: is it there, is it ready, what does it do."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from tacita.plans.files import sha256_of
from tacita.plans.public_folder import MANIFEST
from tacita.plans.wire import API, VISITOR, Models
from tacita.server.core.accounts import STRANGER
from tacita.server.http.auth import At, Caller, Operator
from tacita.server.http.calls import SchemeName, file_response, offered
from tacita.server.http.problems import Fault, not_found
from tacita.version import __version__

router = APIRouter(prefix=API, tags=["models"])
operating = APIRouter(tags=["operating"])
PublicFile = Literal["plan.json", "tokenizer.json", "embedding.safetensors"]


@router.get("/models", summary="What there is to ask, and what it costs")
async def models(service: At, who: Caller, response: Response) -> Models:
    if who is STRANGER and service.visitors:
        response.headers[VISITOR] = service.visitors.offer()
    return Models(release=__version__, signer=service.signer, models=service.offers.models)


@router.get("/models/{model}/public", summary="The list of the public folder: hashes of its files")
async def manifest(
    service: At, who: Caller, model: str, scheme: SchemeName, if_none_match: str = Header("")
) -> Response:
    offer = offered(service, model, scheme)
    return _file(offer.public / MANIFEST, if_none_match)


@router.get("/models/{model}/public/{file}", summary="A file of the public folder")
async def public_file(
    service: At,
    who: Caller,
    model: str,
    file: PublicFile,
    scheme: SchemeName,
    if_none_match: str = Header(""),
) -> Response:
    path = offered(service, model, scheme).public / file
    if not path.is_file():
        raise not_found("file of this model")
    return _file(path, if_none_match)


def _file(path: Path, known: str) -> Response:
    stat = path.stat()
    sha256 = _file_hash(path, stat.st_mtime_ns, stat.st_size)
    if known.strip('" ') == sha256:
        return Response(status_code=304, headers={"ETag": f'"{sha256}"'})
    return file_response(path, sha256)


@lru_cache(maxsize=64)
def _file_hash(path: Path, changed: int, size: int) -> str:
    """Returns the hash of a file, computed once, and again when the file is another."""
    return sha256_of(path)


@operating.get("/healthz", summary="200 while the process answers")
async def health() -> PlainTextResponse:
    return PlainTextResponse("ok\n")


@operating.get("/readyz", summary="200 while requests are taken and workers and disk allow it, else 503")
async def ready(service: At) -> PlainTextResponse:
    sessions = (each.process.child for each in service.sessions.values())
    if not (service.ready and all(pool.pids for pool in service.pools) and all(sessions)):
        raise Fault(
            503, "not-ready", "the server or a worker of it starts or ends", "ask again", {"Retry-After": "1"}
        )
    if not service.layout.has_room(0):
        raise Fault(503, "no-room", "the server's disk is full", "ask later", {"Retry-After": "60"})
    return PlainTextResponse("ready\n")


@operating.get("/metrics", summary="Figures for Prometheus, for operators")
async def metrics(service: At, who: Operator) -> Response:
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)
