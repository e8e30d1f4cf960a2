"""A body into a file: counted, and continued where a connection broke."""

from __future__ import annotations

import re
from contextlib import aclosing
from pathlib import Path

import httpx2

from tacita.errors import FileError, PeerError
from tacita.remote.http.channel import JSON_BYTES, Call, Channel, Pairs, UntrustedPeerError, failure
from tacita.remote.http.problems import refused
from tacita.remote.http.retries import PASSING, seconds_of

OWN = 0o600


async def download(channel: Channel, path: str, target: Path, most: int, params: Pairs | None = None) -> None:
    """The body of GET `path`, at most so many bytes, into the file `target`, mode 0600.

    A connection that breaks is made again, and the rest asked for; attempts count from the last that brought
    bytes. Raises PeerError, what `problems.refused` makes, FileError for a full disk.
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
    """(the server's Retry-After, an error that passes), or two times None when all is there."""
    got, what = target.stat().st_size, channel.what(call)
    headers = {"Range": f"bytes={got}-"} if got else {}
    try:
        async with channel.opened(Call("GET", call.path, call.params, headers)) as response:
            status = response.status_code
            if status not in (200, 206):
                async with aclosing(channel.read(response, JSON_BYTES, what)) as pieces:
                    error = refused(what, status, b"".join([piece async for piece in pieces]))
                if status not in PASSING:
                    raise error
                return seconds_of(response.headers.get("Retry-After")), error
            await _written(channel, response, target, most, what)
            return None, None
    except httpx2.TransportError as broken:
        return None, failure(what, broken)


async def _written(channel: Channel, response: httpx2.Response, target: Path, most: int, what: str) -> None:
    """From where the server goes on: the beginning, or the end of what is there."""
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
