"""Clients and their bearer tokens. A token is 256 random bits, so its sha256 is all that is kept and a slow
hash would add nothing; it is shown once, when it is made.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Any

from sqlalchemy import Select, delete, or_, select, update
from sqlalchemy.exc import IntegrityError

from tacita.errors import InputError
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import Quota, Usage, Who

PREFIX = "tacita_"
TOKEN = re.compile(r"tacita_[A-Za-z0-9_-]{43}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED = "anybody"  # of earlier releases: one client for all callers without a token
MOST_SECONDS = 86400.0  # of a visitor


def new() -> str:
    """Returns a token that is nobody's yet."""
    return PREFIX + secrets.token_urlsafe(32)


def add(
    ledger: Ledger, name: str, quota: Quota, *, operator: bool = False, seconds: float | None = None
) -> str:
    """Adds a client, and returns its token. seconds: after which it is nobody's; None: it does not expire.
    Raises InputError for a name that is taken, or none."""
    if not NAME.fullmatch(name) or name == RESERVED:
        raise InputError(f"token: {name!r:.80} is no name", hint="letters, digits, . _ -, at most 64")
    token = new()
    expires = None if seconds is None else ledger.clock() + seconds
    try:
        _add(ledger, name, token, quota, operator=operator, expires=expires)
    except IntegrityError:
        raise InputError(
            f"token: {name} has one", hint=f"tacita token rotate {name}, or another name"
        ) from None
    return token


def rotate(ledger: Ledger, name: str, overlap: float, seconds: float | None = None) -> str:
    """Returns another token of the same client, whose keys and requests stay. overlap: seconds for which the
    one before is known, too. seconds: after which the client expires; None: when it would have. Raises
    InputError for a name that nobody has, and for a client that has expired where `seconds` is not given."""
    token, now = new(), ledger.clock()
    who = next((each for each in everyone(ledger) if each.name == name and each.revoked is None), None)
    if who is None:
        raise _unknown(name)
    if seconds is None and who.expires is not None and who.expires <= now:
        raise InputError(f"token: {name} has expired", hint="--days says for how long the new one is valid")
    expires = who.expires if seconds is None else now + seconds
    before = {"former": Who.token, "former_until": now + overlap}
    ledger.run(update(Who).where(Who.id == who.id).values(token=hashed(token), expires=expires, **before))
    return token


def client_of(ledger: Ledger, token: str) -> Who | None:
    """Returns the client of a token, if it is somebody's, and neither revoked nor expired."""
    if not TOKEN.fullmatch(token):
        return None
    hash, now = hashed(token), ledger.clock()
    named = or_(Who.token == hash, (Who.former == hash) & (Who.former_until > now))
    valid = or_(Who.expires.is_(None), Who.expires > now)
    return ledger.one(select(Who).where(named, valid, Who.revoked.is_(None)))


def visit(ledger: Ledger, token: str, address: str, quota: Quota) -> Who:
    """Adds a visitor with this token, for a day, and returns it."""
    expires = ledger.clock() + MOST_SECONDS
    return _add(ledger, f"visitor-{secrets.token_hex(16)}", token, quota, expires=expires, address=address)


def visitors(ledger: Ledger, address: str) -> int:
    """Returns the number of visitors that came from an address within a day."""
    return ledger.count(Who.address == address, Who.made > ledger.clock() - MOST_SECONDS)


def drop_visitors(ledger: Ledger) -> None:
    """Forgets visitors a day after they expired, when nothing of theirs is left to be charged."""
    before = ledger.clock() - MOST_SECONDS
    old = select(Who.id).where(Who.address.is_not(None), Who.expires < before)
    ledger.run(delete(Usage).where(Usage.client.in_(old)), delete(Who).where(Who.id.in_(old)))


def gone(ledger: Ledger) -> Select[str]:
    """Selects the ids of clients of which nothing is to stay: revoked, or visitors that have expired."""
    over = Who.address.is_not(None) & (Who.expires <= ledger.clock())
    return select(Who.id).where(or_(Who.revoked.is_not(None), over, Who.name == RESERVED))


def of_id(ledger: Ledger, id: str) -> Who:
    """Returns the client of an id that the ledger gave out."""
    (who,) = ledger.all(select(Who).where(Who.id == id))
    return who


def everyone(ledger: Ledger) -> list[Who]:
    """Returns all clients that an operator ever named, the oldest first."""
    return ledger.all(select(Who).where(Who.address.is_(None)).order_by(Who.made))


def revoke(ledger: Ledger, name: str) -> None:
    """Revokes a client and its token from the next call on. Raises InputError for an unknown name."""
    named = (Who.name == name) & Who.revoked.is_(None)
    if not ledger.run(update(Who).where(named).values(revoked=ledger.clock())):
        raise _unknown(name)


def hashed(token: str) -> str:
    """Returns the hash of a token, which is all that is kept of it."""
    return hashlib.sha256(token.encode()).hexdigest()


def _unknown(name: str) -> InputError:
    return InputError(f"token: no client is called {name!r:.80}", hint="tacita token list")


def _add(ledger: Ledger, name: str, token: str, quota: Quota, **columns: Any) -> Who:
    who = Who(secrets.token_hex(16), name, quota, made=ledger.clock(), token=hashed(token), **columns)
    with ledger.change() as session:
        session.add(who)
    return who
