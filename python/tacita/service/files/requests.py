"""A request as it comes: into a folder of its own, checked as far as it can be without the engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from tacita.errors import FileError
from tacita.protocol import envelope
from tacita.protocol.files import Workdir
from tacita.service.files.bodies import Pace, receive
from tacita.service.files.layout import Layout


async def take(
    id: str, key: str, count: int, sha256: str, body: AsyncIterator[bytes], layout: Layout, pace: Pace
) -> Path:
    """The work folder with the request in it; nothing stays where it raises.

    Raises FileError for a wrong checksum, or another key than `key` in its header, ResourceError for want
    of disk, and what `receive` raises.
    """
    layout.require_room(count)
    folder = layout.request(id)
    folder.mkdir(mode=0o700, parents=True)
    try:
        await _written(Workdir(folder).request, key, count, sha256, body, pace)
    except BaseException:
        layout.drop_request(id)
        raise
    return folder


async def _written(
    path: Path, key: str, count: int, sha256: str, body: AsyncIterator[bytes], pace: Pace
) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        received = await receive(body, file, count, pace)
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())
    if received.sha256 != sha256:
        raise FileError("request: its checksum does not match", hint="send it again")
    if envelope.key_of(path, "request") != key:
        raise FileError("request: made with other keys than it names", hint="name those it was made with")
