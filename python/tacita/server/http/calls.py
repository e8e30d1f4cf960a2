"""What several paths need: an id, a body's size, ranges of files."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Annotated

from fastapi import Path as InPath
from fastapi import Query, Request
from fastapi.responses import FileResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from tacita.errors import GoneError
from tacita.plans.wire import BYTES, SHA256
from tacita.server.core.offers import Offered
from tacita.server.core.service import Service
from tacita.server.http.problems import Fault, not_found
from tacita.server.store.bodies import MinRate

HEX = re.compile(r"[0-9a-f]{64}")
Id = Annotated[str, InPath(pattern=r"^[0-9a-f]{32}$", description="32 hexadecimal digits")]
ModelName = Annotated[str, Query(max_length=100, description="of /v1/models")]
SchemeName = Annotated[str, Query(max_length=32, description="of the model's offers")]


def offered(service: Service, model: str, scheme: str) -> Offered:
    """Returns an offer. Raises Fault (404) for unknown names, InputError for a scheme without files."""
    offer = service.offers.named.get((model, scheme))
    if offer is None:
        raise not_found("model and scheme")
    offer.files  # noqa: B018 - refuses a connected scheme
    return offer


def length(request: Request, most: int) -> int:
    """Returns the bytes of the body by its header. Raises Fault: 411, 413."""
    text = request.headers.get("content-length", "")
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Fault(411, "no-length", "the body's size must be told before it", "Content-Length")
    if int(text) > most:
        raise Fault(413, "too-large", f"{text} bytes, at most {most} are taken", "what the plan says fits")
    return int(text)


def sha256_of(headers: Mapping[str, str], name: str = SHA256) -> str:
    """Returns the hash in a header. Raises Fault (400) where it is none."""
    text = headers.get(name.lower(), "")
    if not HEX.fullmatch(text):
        raise Fault(400, "bad-call", f"{name} is missing, or no sha256", "64 hexadecimal digits")
    return text


def min_rate(service: Service) -> MinRate:
    """Returns how fast bodies must come."""
    return MinRate(service.settings.patience, service.settings.least_rate)


async def body(request: Request) -> AsyncIterator[bytes]:
    """Yields the body's pieces. Raises GoneError when the caller has gone."""
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise GoneError("the caller has gone", hint="ask again") from None


class CountedFile(FileResponse):
    """A file whose bytes are counted as they are sent. on_sent: called at the end, also of a connection that
    breaks, with the bytes of the body that went out: of the ranges that were asked for, their parts' heads
    included."""

    on_sent: Callable[[int], None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call."""
        count = 0

        async def send_and_count(message: Message) -> None:
            nonlocal count
            count += len(message.get("body", b""))  # first: what waits to be read has gone out, too
            await send(message)

        try:
            await super().__call__(scope, receive, send_and_count)
        finally:
            if self.on_sent:
                self.on_sent(count)


def file_response(path: Path, sha256: str, on_sent: Callable[[int], None] | None = None) -> FileResponse:
    """Answers with a file that does not change, whole or a range of it. on_sent: as of `CountedFile`."""
    headers = {SHA256: sha256, "Cache-Control": "no-store"}
    stat = os.stat(path)
    response = CountedFile(path, media_type=BYTES, headers=headers, stat_result=stat)
    response.headers["etag"], response.on_sent = f'"{sha256}"', on_sent
    return response
