"""Evaluation keys as they come: piece by piece into one file, each piece written down once it is whole.

A piece counts when its checksum is right and it is on the disk; a piece that breaks off leaves bytes behind
the count, which the next one overwrites. So an upload goes on after a lost connection, and after kill -9.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tacita.errors import FileError
from tacita.plans.files import sha256_of
from tacita.server.store import Ledger
from tacita.server.store import keys as ledger_keys
from tacita.server.store.bodies import Layout, MinRate, part, receive, whole
from tacita.server.store.tables import KeyRow


@dataclass(frozen=True)
class Piece:
    """A piece of a file of keys. begin: in the file. count: bytes. sha256: of them, hex."""

    begin: int
    count: int
    sha256: str


async def take(
    row: KeyRow,
    piece: Piece,
    body: AsyncIterator[bytes],
    ledger: Ledger,
    layout: Layout,
    min_rate: MinRate,
    check: Callable[[Path], None],
) -> KeyRow:
    """Adds a piece that begins where the last ended; returns what the ledger says from now on. check: called
    in a thread with the whole file; raises FileError for one that is none of keys.

    Raises FileError for a wrong checksum, of the piece or at the end of the whole, and what `check` raises
    (the upload then begins again), ResourceError for want of disk, and what `receive` raises.
    """
    folder = layout.keys(row.client, row.id)
    layout.require_room(row.bytes - row.received)
    await _write_piece(folder, piece, body, min_rate)
    row = replace(row, received=piece.begin + piece.count, used=ledger.clock())
    if row.received == row.bytes:
        row = await _complete(row, folder, ledger, check)
    ledger_keys.put(ledger, row)
    return row


async def remove(row: KeyRow, ledger: Ledger, layout: Layout) -> None:
    """Removes keys or what has come of them, the files first."""
    await asyncio.to_thread(layout.drop_keys, row.client, row.id)
    ledger.insist(partial(ledger_keys.drop, ledger, row.client, row.id))


def there(row: KeyRow, layout: Layout) -> bool:
    """Returns whether the keys' file is there, whole or in part."""
    folder = layout.keys(row.client, row.id)
    return whole(folder).exists() or part(folder).exists()


async def _write_piece(folder: Path, piece: Piece, body: AsyncIterator[bytes], min_rate: MinRate) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(part(folder), os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        file.seek(piece.begin)
        received = await receive(body, file, piece.count, min_rate)
        if received.sha256 != piece.sha256:
            raise FileError("keys: the piece's checksum does not match", hint="send it again")
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())


async def _complete(row: KeyRow, folder: Path, ledger: Ledger, check: Callable[[Path], None]) -> KeyRow:
    """Hashes a file of keys once more, as it lies on the disk, and checks it: all of it has come."""
    try:
        if await asyncio.to_thread(_hash_whole, part(folder), row.bytes) != row.sha256:
            raise FileError("keys: the whole file's checksum does not match", hint="upload them again")
        await asyncio.to_thread(check, part(folder))
    except FileError:
        ledger_keys.put(ledger, replace(row, received=0, sha256=""))
        raise
    part(folder).replace(whole(folder))
    return replace(row, complete=True)


def _hash_whole(path: Path, count: int) -> str:
    os.truncate(path, count)
    return sha256_of(path)
