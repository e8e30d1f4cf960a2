"""Clients and their bearer tokens. A token is 256 random bits, so its sha256 is all that is kept and a slow
hash would add nothing; it is shown once, when it is made.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from tacita.errors import InputError
from tacita.service.ledger.ledger import Ledger
from tacita.service.ledger.rows import Quota, Who
from tacita.service.ledger.tables import clients

PREFIX = "tacita_"
TOKEN = re.compile(r"tacita_[A-Za-z0-9_-]{43}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ANYBODY = "anybody"  # the client that --anybody serves, who has no token


def add(ledger: Ledger, name: str, quota: Quota, *, operator: bool = False) -> str:
    """A new client's token. Raises InputError for a name that is taken, or none."""
    if not NAME.fullmatch(name) or name == ANYBODY:
        raise InputError(f"token: {name!r:.80} is no name", hint="letters, digits, . _ -, at most 64")
    token = PREFIX + secrets.token_urlsafe(32)
    try:
        _insert(ledger, name, hashed(token), quota, operator)
    except IntegrityError:
        raise InputError(
            f"token: {name} has one", hint=f"tacita token revoke {name}, or another name"
        ) from None
    return token


def anybody(ledger: Ledger, quota: Quota) -> Who:
    """The client as which everybody is served where no tokens are asked for; made at the first call."""
    with ledger.look() as db:
        found = db.execute(select(clients).where(clients.c.name == ANYBODY)).one_or_none()
    if found is None:
        _insert(ledger, ANYBODY, "", quota, False)
        return anybody(ledger, quota)
    return _who(found)


def known(ledger: Ledger, token: str) -> Who | None:
    """Whose token it is, if it is somebody's and not revoked."""
    if not TOKEN.fullmatch(token):
        return None
    wanted = select(clients).where(clients.c.token == hashed(token), clients.c.revoked.is_(None))
    with ledger.look() as db:
        found = db.execute(wanted).one_or_none()
    return None if found is None else _who(found)


def of_id(ledger: Ledger, id: str) -> Who:
    """The client of an id that the ledger gave out."""
    with ledger.look() as db:
        return _who(db.execute(select(clients).where(clients.c.id == id)).one())


def everyone(ledger: Ledger) -> list[Who]:
    """All clients that ever were, the oldest first."""
    with ledger.look() as db:
        return [_who(row) for row in db.execute(select(clients).order_by(clients.c.made))]


def revoke(ledger: Ledger, name: str) -> None:
    """From the next call on its token is nobody's. Raises InputError for a name that nobody has."""
    named = (clients.c.name == name) & clients.c.revoked.is_(None)
    with ledger.change() as db:
        if not db.execute(update(clients).where(named).values(revoked=ledger.clock())).rowcount:
            raise InputError(f"token: no client is called {name!r:.80}", hint="tacita token list")


def hashed(token: str) -> str:
    """What is kept of it."""
    return hashlib.sha256(token.encode()).hexdigest()


def _insert(ledger: Ledger, name: str, token: str, quota: Quota, operator: bool) -> None:
    row = {"id": secrets.token_hex(16), "name": name, "token": token, "made": ledger.clock()}
    with ledger.change() as db:
        db.execute(insert(clients).values(**row, operator=int(operator), **vars(quota)))


def _who(row: Row[Any]) -> Who:
    quota = Quota(row.texts, row.bytes, row.seconds, row.keys, row.per_minute, row.tokens)
    return Who(row.id, row.name, quota, bool(row.operator), row.made, row.revoked)
