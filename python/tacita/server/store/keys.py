"""Uploads of evaluation keys in the ledger: how far each has come."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, delete, func, select, update
from sqlalchemy.dialects.sqlite import insert

from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import KeyRow, clients, keys


def get(ledger: Ledger, client: str, id: str) -> KeyRow | None:
    """Returns a client's keys of this id."""
    with ledger.look() as db:
        row = db.execute(select(keys).where(keys.c.client == client, keys.c.id == id)).one_or_none()
    return None if row is None else _key(row)


def of_client(ledger: Ledger, client: str) -> list[KeyRow]:
    """Returns all keys of a client, the latest used first."""
    wanted = select(keys).where(keys.c.client == client).order_by(keys.c.used.desc())
    with ledger.look() as db:
        return [_key(row) for row in db.execute(wanted)]


def put(ledger: Ledger, row: KeyRow) -> None:
    """Writes a row, or replaces the one of the same client and id."""
    values = {**vars(row), "complete": int(row.complete)}
    changed = {name: value for name, value in values.items() if name not in ("client", "id")}
    with ledger.change() as db:
        db.execute(insert(keys).values(**values).on_conflict_do_update(["client", "id"], set_=changed))


def touch(ledger: Ledger, client: str, id: str) -> None:
    """Records that keys were used now."""
    named = (keys.c.client == client) & (keys.c.id == id)
    with ledger.change() as db:
        db.execute(update(keys).where(named).values(used=ledger.clock()))


def drop(ledger: Ledger, client: str, id: str) -> bool:
    """Removes the row of keys. Returns whether there was one."""
    named = (keys.c.client == client) & (keys.c.id == id)
    with ledger.change() as db:
        return bool(db.execute(delete(keys).where(named)).rowcount)


def every(ledger: Ledger) -> list[KeyRow]:
    """Returns all clients' keys, those that were used longest ago first."""
    with ledger.look() as db:
        return [_key(row) for row in db.execute(select(keys).order_by(keys.c.used))]


def addresses(ledger: Ledger) -> dict[str, str]:
    """Returns the address of each visitor that has keys, by the visitor's id."""
    wanted = select(clients.c.id, clients.c.address).join(keys, keys.c.client == clients.c.id)
    with ledger.look() as db:
        return {row.id: row.address for row in db.execute(wanted.where(clients.c.address.is_not(None)))}


def everywhere(ledger: Ledger) -> list[tuple[str, str]]:
    """Returns (client, id) of all keys."""
    with ledger.look() as db:
        return [(row.client, row.id) for row in db.execute(select(keys.c.client, keys.c.id))]


def count(ledger: Ledger) -> int:
    """Returns the number of complete keys."""
    with ledger.look() as db:
        wanted = select(func.count()).select_from(keys).where(keys.c.complete == 1)
        return int(db.execute(wanted).scalar_one())


def _key(row: Row[Any]) -> KeyRow:
    return KeyRow(**{**row._mapping, "complete": bool(row.complete)})
