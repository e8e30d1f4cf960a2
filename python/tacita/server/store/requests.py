"""Requests in the ledger: from when all of one has come until it is removed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update

from tacita.plans.wire import State
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import RequestRow, requests

OPEN = (State.waiting, State.running)


def add(ledger: Ledger, row: RequestRow) -> None:
    """Adds a request. Raises IntegrityError of SQLAlchemy for an idempotency key that the client has used."""
    with ledger.change() as db:
        db.execute(insert(requests).values(**vars(row)))


def get(ledger: Ledger, client: str, id: str) -> RequestRow | None:
    """Returns a client's request of this id."""
    return _one(ledger, requests.c.client == client, requests.c.id == id)


def by_id(ledger: Ledger, id: str) -> RequestRow | None:
    """Returns the request of this id, whoever's it is, for the server's own use."""
    return _one(ledger, requests.c.id == id)


def asked_before(ledger: Ledger, client: str, again: str) -> RequestRow | None:
    """Returns the request that came with this idempotency key."""
    return _one(ledger, requests.c.client == client, requests.c.again == again)


def unfinished(ledger: Ledger) -> list[RequestRow]:
    """Returns all requests that wait or run, in the order in which they came."""
    wanted = select(requests).where(requests.c.state.in_(OPEN)).order_by(requests.c.came, requests.c.id)
    with ledger.look() as db:
        return [_request(row) for row in db.execute(wanted)]


def open_of(ledger: Ledger, client: str, key: str) -> int:
    """Returns the number of requests of these keys that wait or run."""
    named = (requests.c.client == client) & (requests.c.key == key) & requests.c.state.in_(OPEN)
    with ledger.look() as db:
        return len(db.execute(select(requests.c.id).where(named)).all())


def waiting(ledger: Ledger, model: str, scheme: str) -> int:
    """Returns the number of requests in a queue."""
    named = (requests.c.model == model) & (requests.c.scheme == scheme) & (requests.c.state == State.waiting)
    with ledger.look() as db:
        return int(db.execute(select(func.count()).select_from(requests).where(named)).scalar_one())


def change(ledger: Ledger, id: str, **values: Any) -> None:
    """Sets columns of a request."""
    with ledger.change() as db:
        db.execute(update(requests).where(requests.c.id == id).values(**values))


def drop(ledger: Ledger, id: str) -> None:
    """Removes the row of a request."""
    with ledger.change() as db:
        db.execute(delete(requests).where(requests.c.id == id))


def old(ledger: Ledger, before: float) -> list[str]:
    """Returns the ids of requests that ended before this time."""
    with ledger.look() as db:
        return [row.id for row in db.execute(select(requests.c.id).where(requests.c.ended < before))]


def answered(ledger: Ledger) -> list[str]:
    """Returns the ids of requests whose answer waits."""
    with ledger.look() as db:
        return [row.id for row in db.execute(select(requests.c.id).where(requests.c.state == State.done))]


def of_clients(ledger: Ledger, ids: Iterable[str]) -> list[RequestRow]:
    """Returns all requests of these clients."""
    wanted = select(requests).where(requests.c.client.in_(list(ids)))
    with ledger.look() as db:
        return [_request(row) for row in db.execute(wanted)]


def everywhere(ledger: Ledger) -> list[str]:
    """Returns the ids of all requests."""
    with ledger.look() as db:
        return [row.id for row in db.execute(select(requests.c.id))]


def _one(ledger: Ledger, *conditions: Any) -> RequestRow | None:
    with ledger.look() as db:
        row = db.execute(select(requests).where(*conditions)).one_or_none()
    return None if row is None else _request(row)


def _request(row: Row[Any]) -> RequestRow:
    return RequestRow(**{**row._mapping, "state": State(row.state)})
