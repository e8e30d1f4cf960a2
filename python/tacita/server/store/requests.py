"""Requests: their files as they come, and their rows in the ledger from when all of one has come until it is
removed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, select, update

from tacita.errors import FileError
from tacita.plans import envelope
from tacita.plans.files import Workdir
from tacita.plans.wire import State
from tacita.server.store.bodies import Layout, MinRate, receive
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import RequestRow

OPEN = RequestRow.state.in_((State.waiting, State.running))
MOST_FAILED = 100  # requests of a client that are known after they failed, whose texts were given back


async def take(
    id: str, key: str, count: int, sha256: str, body: AsyncIterator[bytes], layout: Layout, min_rate: MinRate
) -> None:
    """Writes a request into a work folder of its own, checked as far as it can be without the engine;
    nothing stays where it raises.

    Raises FileError for a wrong checksum, or another key than `key` in its header, ResourceError for want
    of disk, and what `receive` raises.
    """
    layout.require_room(count)
    folder = layout.request(id)
    folder.mkdir(mode=0o700, parents=True)
    path = Workdir(folder).request
    try:
        await receive(body, path, 0, count, sha256, min_rate)
        if envelope.key_of(path, "request") != key:
            raise FileError("request: made with other keys than it names", hint="name those it was made with")
    except BaseException:
        layout.drop_request(id)
        raise


def add(ledger: Ledger, row: RequestRow) -> None:
    """Adds a request. Raises IntegrityError of SQLAlchemy for an idempotency key that the client has used."""
    with ledger.change() as session:
        session.add(row)


def get(ledger: Ledger, client: str, id: str) -> RequestRow | None:
    return ledger.one(select(RequestRow).where(RequestRow.client == client, RequestRow.id == id))


def by_id(ledger: Ledger, id: str) -> RequestRow | None:
    """Returns the request of this id, whoever's it is, for the server's own use."""
    return ledger.one(select(RequestRow).where(RequestRow.id == id))


def asked_before(ledger: Ledger, client: str, again: str) -> RequestRow | None:
    return ledger.one(select(RequestRow).where(RequestRow.client == client, RequestRow.again == again))


def unfinished(ledger: Ledger) -> list[RequestRow]:
    """Returns all requests that wait or run, in the order in which they came."""
    return ledger.all(select(RequestRow).where(OPEN).order_by(RequestRow.came, RequestRow.id))


def of_clients(ledger: Ledger, ids: Select[str]) -> list[RequestRow]:
    """Returns all requests of these clients, however many they are."""
    return ledger.all(select(RequestRow).where(RequestRow.client.in_(ids)))


def open_of(ledger: Ledger, client: str, key: str) -> int:
    """Returns the number of requests of these keys that wait or run."""
    return ledger.count(RequestRow.client == client, RequestRow.key == key, OPEN)


def waiting(ledger: Ledger, model: str, scheme: str) -> int:
    state = RequestRow.state == State.waiting
    return ledger.count(RequestRow.model == model, RequestRow.scheme == scheme, state)


def old(ledger: Ledger, before: float) -> list[str]:
    """Returns the ids of requests that ended before this time."""
    return ids(ledger, RequestRow.ended < before)


def answered(ledger: Ledger) -> list[str]:
    """Returns the ids of requests whose answer waits."""
    return ids(ledger, RequestRow.state == State.done)


def change(ledger: Ledger, id: str, **values: Any) -> None:
    ledger.run(update(RequestRow).where(RequestRow.id == id).values(**values))


def fail(ledger: Ledger, row: RequestRow, **values: Any) -> None:
    """Sets columns of a request that failed. Its client's oldest failures beyond `MOST_FAILED` are forgotten:
    they cost it nothing, and a row each."""
    change(ledger, row.id, state=State.failed, **values)
    of_client = RequestRow.client == row.client, RequestRow.state == State.failed
    newest = select(RequestRow.id).where(*of_client).order_by(RequestRow.ended.desc(), RequestRow.id)
    ledger.run(delete(RequestRow).where(RequestRow.id.in_(newest.offset(MOST_FAILED))))


def drop(ledger: Ledger, id: str) -> None:
    ledger.run(delete(RequestRow).where(RequestRow.id == id))


def ids(ledger: Ledger, *conditions: ColumnElement[bool]) -> list[str]:
    """Returns the ids of all requests that meet these conditions."""
    return ledger.all(select(RequestRow.id).where(*conditions))
