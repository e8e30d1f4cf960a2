"""Bodies of calls into files: counted, hashed and timed as they come, a piece of each held in memory.

A sender may not be silent for long, nor so slow that a body takes much longer than its size needs: whoever
holds a connection open holds nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tacita.errors import FileError, InputError, LateError, ResourceError

AT_ONCE = 1 << 20  # bytes that wait in memory until a thread hashes and writes them


@dataclass(frozen=True)
class MinRate:
    """How fast bodies must move. patience: seconds of silence. least_rate: bytes a second beyond it."""

    patience: float
    least_rate: float

    def whole(self, count: int) -> float:
        """Returns the seconds that a body of so many bytes may take."""
        return self.patience + count / self.least_rate


async def receive(
    body: AsyncIterator[bytes], path: Path, begin: int, count: int, sha256: str, min_rate: MinRate
) -> None:
    """Writes a body of exactly `count` bytes to a file of mode 0600, from `begin` on, and onto the disk.

    Raises FileError for a wrong checksum, InputError for a body that is longer or shorter, LateError for one
    that is too slow.
    """
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        file.seek(begin)
        if await _write(body, file, count, min_rate) != sha256:
            raise FileError("body: its checksum does not match", hint="send it again")
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())


async def _write(body: AsyncIterator[bytes], file: BinaryIO, count: int, min_rate: MinRate) -> str:
    """Returns the hash of what was written."""
    digest, done, end = hashlib.sha256(), 0, time.monotonic() + min_rate.whole(count)
    waiting = bytearray()

    def write() -> None:
        digest.update(waiting)
        file.write(waiting)
        waiting.clear()

    async for piece in _with_timeout(body, min_rate, end):
        done += len(piece)
        if done > count:
            raise InputError(f"body: more than the {count} bytes that were announced", hint="send those")
        waiting += piece
        if len(waiting) >= AT_ONCE:
            await asyncio.to_thread(write)
    await asyncio.to_thread(write)
    if done < count:
        raise InputError(f"body: {done} bytes, {count} were announced", hint="send all of them")
    return digest.hexdigest()


async def _with_timeout(body: AsyncIterator[bytes], min_rate: MinRate, end: float) -> AsyncIterator[bytes]:
    pieces = aiter(body)
    while True:
        seconds = min(min_rate.patience, end - time.monotonic())
        try:
            piece = await asyncio.wait_for(anext(pieces), max(0.0, seconds))
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise LateError(
                "body: it comes too slowly", hint="a faster connection, or smaller pieces"
            ) from None
        yield piece


# Paths below the data folder. Every part of a path is of our own making or hex of a fixed length, checked
# where it came in, so that no client names a path.

HEX = re.compile(r"[0-9a-f]{32}")
SPARE = 512 << 20  # bytes of the disk that uploads leave free: for the ledger, for spills and responses
KEYS, REQUESTS, TEXTS = "keys", "requests", "texts"


@dataclass(frozen=True)
class Layout:
    """The paths of a server's files. root: the data folder."""

    root: Path

    @property
    def free(self) -> int:
        """Returns the bytes of the disk that are free."""
        return shutil.disk_usage(self.root).free

    def keys(self, client: str, id: str) -> Path:
        return self.root / KEYS / _hex(client) / _hex(id)

    def request(self, id: str) -> Path:
        """Returns the work folder of a request: request.ct, response.ct, resume points."""
        return self.root / REQUESTS / _hex(id)

    def text(self, client: str, key: str, id: str) -> Path:
        """Returns the folder of the rows of a text, below the key that it is written with; a worker writes
        there, and not beside the keys."""
        return self.root / TEXTS / _hex(client) / _hex(key) / _hex(id)

    def drop_keys(self, client: str, id: str) -> None:
        """Removes keys, if they are there, and the client's folder with the last of them."""
        _drop(self.keys(client, id), 1)

    def drop_text(self, client: str, key: str, id: str) -> None:
        """Removes the rows of a text, if they are there, and the folders that they leave empty."""
        _drop(self.text(client, key, id), 2)

    def drop_request(self, id: str) -> None:
        shutil.rmtree(self.request(id), ignore_errors=True)

    def sweep(self, keys: set[tuple[str, str]], requests: set[str]) -> int:
        """Removes every folder that the ledger does not know: left by a server that was killed between
        making one and writing it down, and the rows of all texts, which nobody can name any more. Returns how
        many."""
        strays = [path for path in _folders(self.root / REQUESTS) if path.name not in requests]
        strays += _folders(self.root / TEXTS)
        for client in _folders(self.root / KEYS):
            strays += [path for path in _folders(client) if (client.name, path.name) not in keys]
        for path in strays:
            shutil.rmtree(path, ignore_errors=True)
        return len(strays)

    def has_room(self, count: int) -> bool:
        """Returns whether the disk has room for so many bytes, and some to spare."""
        return self.free >= count + SPARE

    def require_room(self, count: int) -> None:
        """Raises ResourceError unless it `has_room`."""
        if not self.has_room(count):
            raise ResourceError(
                f"the server's disk has no room for {count} bytes", hint="try later, or tell its operator"
            )


def part(folder: Path) -> Path:
    """Returns the path of keys that have not come whole."""
    return folder / "evaluation.keys.part"


def whole(folder: Path) -> Path:
    """Returns the path of keys that have come whole."""
    return folder / "evaluation.keys"


def _hex(name: str) -> str:
    if not HEX.fullmatch(name):
        raise InputError(f"{name!r:.80} is no id", hint="32 hexadecimal digits")
    return name


def _drop(folder: Path, above: int) -> None:
    """Removes a folder, and so many of those above it as are empty then."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        for each in [*folder.parents][:above]:
            each.rmdir()


def _folders(path: Path) -> list[Path]:
    return [each for each in path.iterdir() if each.is_dir()] if path.is_dir() else []
