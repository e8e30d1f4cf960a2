"""The page at `/`: clients of the service in a browser, as `make web` built it into the package.

Its files have the headers that come with them: nothing from elsewhere, no inline code, and an origin of its
own, without which browsers give no shared memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, RedirectResponse, Response

from tacita.data import WEB
from tacita.server.http.problems import not_found

router = APIRouter(include_in_schema=False)
FILES = {
    "index.html": "text/html; charset=utf-8",
    "page.js": "text/javascript",
    "worker.js": "text/javascript",
    "socket.js": "text/javascript",
    "files.js": "text/javascript",
    "style.css": "text/css",
    "tacita.wasm": "application/wasm",
}


@router.get("/")
async def index() -> Response:
    """Returns the page, or where it was not built, redirects to that of the API."""
    return _file("index.html") if (WEB / "index.html").is_file() else RedirectResponse("/docs")


@router.get("/{name}")
async def part(name: str) -> Response:
    if name not in FILES or not (WEB / name).is_file():
        raise not_found("page")
    return _file(name)


def _file(name: str) -> FileResponse:
    headers = {**_headers(WEB), "Cache-Control": "no-cache"}
    return FileResponse(WEB / name, media_type=FILES[name], headers=headers)


@cache
def _headers(folder: Path) -> Mapping[str, str]:
    headers = json.loads((folder / "headers.json").read_text(encoding="utf-8"))
    return {str(name): str(value) for name, value in headers.items()}
