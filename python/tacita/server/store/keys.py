"""Evaluation keys: how far each upload has come, in the ledger, and their files as they come, piece by piece
into one file, each piece written down once it is whole.

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

from sqlalchemy import ColumnElement, delete, select, update

from tacita.errors import FileError
from tacita.plans.files import sha256_of
from tacita.server.store.bodies import Layout, MinRate, part, receive, whole
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import KeyRow, Who


def get(ledger: Ledger, client: str, id: str) -> KeyRow | None:
    return ledger.one(select(KeyRow).where(_named(client, id)))


def of_client(ledger: Ledger, client: str) -> list[KeyRow]:
    """Returns all keys of a client, the latest used first."""
    return ledger.all(select(KeyRow).where(KeyRow.client == client).order_by(KeyRow.used.desc()))


def every(ledger: Ledger) -> list[KeyRow]:
    """Returns all clients' keys, those that were used longest ago first."""
    return ledger.all(select(KeyRow).order_by(KeyRow.used))


def count(ledger: Ledger) -> int:
    """Returns the number of complete keys."""
    return ledger.count(KeyRow.complete.is_(True))


def addresses(ledger: Ledger) -> dict[str, str]:
    """Returns the address of each visitor that has keys, by the visitor's id."""
    held = Who.id.in_(select(KeyRow.client))
    visitors = ledger.all(select(Who).where(held, Who.address.is_not(None)))
    return {who.id: who.address for who in visitors if who.address is not None}


def put(ledger: Ledger, row: KeyRow) -> None:
    """Writes a row, or replaces the one of the same client and id."""
    with ledger.change() as session:
        session.merge(row)


def touch(ledger: Ledger, client: str, id: str) -> None:
    ledger.run(update(KeyRow).where(_named(client, id)).values(used=ledger.clock()))


def drop(ledger: Ledger, client: str, id: str) -> bool:
    """Removes the row of keys. Returns whether there was one."""
    return bool(ledger.run(delete(KeyRow).where(_named(client, id))))


def _named(client: str, id: str) -> ColumnElement[bool]:
    return (KeyRow.client == client) & (KeyRow.id == id)


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
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    await receive(body, part(folder), piece.begin, piece.count, piece.sha256, min_rate)
    row = replace(row, received=piece.begin + piece.count, used=ledger.clock())
    if row.received == row.bytes:
        row = await _complete(row, folder, ledger, check)
    put(ledger, row)
    return row


async def remove(row: KeyRow, ledger: Ledger, layout: Layout) -> None:
    """Removes keys or what has come of them, the files first."""
    await asyncio.to_thread(layout.drop_keys, row.client, row.id)
    ledger.insist(partial(drop, ledger, row.client, row.id))


def there(row: KeyRow, layout: Layout) -> bool:
    """Returns whether the keys' file is there, whole or in part."""
    folder = layout.keys(row.client, row.id)
    return whole(folder).exists() or part(folder).exists()


async def _complete(row: KeyRow, folder: Path, ledger: Ledger, check: Callable[[Path], None]) -> KeyRow:
    """Hashes a file of keys once more, as it lies on the disk, and checks it: all of it has come."""
    try:
        if await asyncio.to_thread(_hash_whole, part(folder), row.bytes) != row.sha256:
            raise FileError("keys: the whole file's checksum does not match", hint="upload them again")
        await asyncio.to_thread(check, part(folder))
    except FileError:
        put(ledger, replace(row, received=0, sha256=""))
        raise
    part(folder).replace(whole(folder))
    return replace(row, complete=True)


def _hash_whole(path: Path, count: int) -> str:
    os.truncate(path, count)
    return sha256_of(path)
