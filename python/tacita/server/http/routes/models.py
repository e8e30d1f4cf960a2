"""What there is to ask, and the public part of each model: cached by its hash."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Header, Response

from tacita.plans.files import sha256_of
from tacita.plans.public_folder import MANIFEST
from tacita.plans.wire import API, VISITOR, Models
from tacita.server.core.accounts import STRANGER
from tacita.server.http.auth import At, Caller
from tacita.server.http.problems import not_found
from tacita.server.http.routes.common import SchemeName, file_response, offered
from tacita.version import __version__

router = APIRouter(prefix=API, tags=["models"])
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
