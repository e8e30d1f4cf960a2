"""Waits for the end of a request, by the server's stream of events, or by polling; and downloads bodies."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from pathlib import Path

import httpx2
from pydantic import ValidationError

from tacita.client.http.channel import (
    JSON_BYTES,
    PASSING,
    Call,
    Channel,
    Pairs,
    UntrustedPeerError,
    failure,
    refused,
    seconds_of,
)
from tacita.errors import FileError, PeerError
from tacita.plans.wire import Status

LINE = 1 << 16  # bytes of a line of the stream
STREAM = 1 << 30  # bytes of a whole stream
EVENTS = "text/event-stream"
PAUSE, LONGEST = 0.5, 5.0  # seconds between questions: the first, and the most, each half as long again
Tell = Callable[[Status], None]


async def wait_until_final(channel: Channel, request: str, tell: Tell) -> Status:
    """Returns the final status of a request; `tell` is called with it and with each status before it.

    A stream that breaks is opened again after one poll; a server without streams is polled. Raises PeerError
    as `Channel.ask` does, or where the server reports another request.
    """
    pause, streams = PAUSE, True
    while True:
        if streams:
            async with aclosing(_stream(channel, request)) as stream:
                streams = False
                async for status in stream:
                    streams = True
                    if _checked(status, request, tell).state.final:
                        return status
        reply = await channel.ask("GET", f"/requests/{request}")
        status = _checked(reply.read(Status), request, tell)
        if status.state.final:
            return status
        await channel.patience.sleep(pause)
        pause = min(LONGEST, 1.5 * pause)


def _checked(status: Status, request: str, tell: Tell) -> Status:
    if status.id != request:
        raise PeerError(f"request {request[:12]}: the server tells of another one", hint="ask again")
    tell(status)
    return status


async def _stream(channel: Channel, request: str) -> AsyncGenerator[Status, None]:
    """Yields statuses until the stream ends or breaks, none where the server has no stream."""
    call = Call("GET", f"/requests/{request}/events", headers={"Accept": EVENTS})
    with suppress(httpx2.TransportError):
        async with channel.stream(call) as response:
            if response.status_code == 200 and EVENTS in response.headers.get("Content-Type", ""):
                async with aclosing(_lines(channel, response)) as lines:
                    async for line in lines:
                        if line.startswith(b"data:"):
                            yield _status(channel, call, line.removeprefix(b"data:"))


async def _lines(channel: Channel, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    rest = b""
    async with aclosing(channel.read(response, STREAM, "events")) as pieces:
        async for piece in pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line
            if len(rest) > LINE:
                raise PeerError(
                    f"events: a line of over {LINE} bytes", hint="the server sends what it may not"
                )


def _status(channel: Channel, call: Call, data: bytes) -> Status:
    with suppress(ValidationError):
        return Status.model_validate_json(data)
    raise PeerError(f"{channel.what(call)}: an event that is no Status", hint="is it a tacita service?")


# A body into a file: counted, and continued where a connection broke.

OWN = 0o600


async def download(channel: Channel, path: str, target: Path, most: int, params: Pairs | None = None) -> None:
    """Downloads the body of GET `path`, at most so many bytes, into the file `target`, mode 0600.

    A connection that breaks is made again, and the rest asked for; attempts count from the last that brought
    bytes. Raises PeerError, what `refused` makes, FileError for a full disk.
    """
    attempt, call = 0, Call("GET", path, params or {})
    _begin(target)
    while True:
        had = target.stat().st_size
        wished, problem = await _continued(channel, call, target, most)
        if problem is None:
            return
        attempt = 1 if target.stat().st_size > had else attempt + 1
        lasting = isinstance(problem, UntrustedPeerError)
        wait = None if lasting else channel.patience.delay(attempt, wished)
        if wait is None:
            raise problem
        await channel.patience.sleep(wait)


async def _continued(
    channel: Channel, call: Call, target: Path, most: int
) -> tuple[float | None, Exception | None]:
    """Downloads the rest of a body. Returns (None, None) when all is there, else (the server's Retry-After in
    seconds, an error that may pass)."""
    got, what = target.stat().st_size, channel.what(call)
    headers = {"Range": f"bytes={got}-"} if got else {}
    try:
        async with channel.stream(Call("GET", call.path, call.params, headers)) as response:
            status = response.status_code
            if status not in (200, 206):
                async with aclosing(channel.read(response, JSON_BYTES, what)) as pieces:
                    error = refused(what, status, b"".join([piece async for piece in pieces]))
                if status not in PASSING:
                    raise error
                return seconds_of(response.headers.get("Retry-After")), error
            await _write(channel, response, target, most, what)
            return None, None
    except httpx2.TransportError as broken:
        return None, failure(what, broken)


async def _write(channel: Channel, response: httpx2.Response, target: Path, most: int, what: str) -> None:
    """Writes a response's body: from the file's end for a part (206), else over the whole file. Raises
    PeerError for another part, FileError."""
    begin = target.stat().st_size if response.status_code == 206 else 0
    if begin and not re.match(rf"bytes {begin}-", response.headers.get("Content-Range", "")):
        raise PeerError(f"{what}: another part than was asked for", hint="ask again")
    try:
        with target.open("r+b") as file:
            file.truncate(begin)
            file.seek(begin)
            async with aclosing(channel.read(response, most - begin, what)) as pieces:
                async for piece in pieces:
                    file.write(piece)
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error})", hint="is the disk full?") from error


def _begin(target: Path) -> None:
    try:
        target.touch(mode=OWN)
        target.chmod(OWN)
        target.write_bytes(b"")
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error})", hint="choose another folder") from error
