"""The rows of the ledger as the rest of the service sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import (
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

from tacita.plans.wire import State


@dataclass(frozen=True)
class Quota:
    """What a client may take; None: any number. texts, tokens (of texts that are written), bytes (both
    directions), seconds (of evaluation): a day. keys: at the same time. per_minute: calls."""

    texts: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    keys: int | None = 4
    per_minute: int | None = 600
    tokens: int | None = None


@dataclass(frozen=True)
class Who:
    """A client. operator: may read the metrics. address: network of a visitor, see `core.accounts`; None for
    a client that an operator named."""

    id: str
    name: str
    quota: Quota
    operator: bool = False
    made: float = 0.0
    revoked: float | None = None
    expires: float | None = None
    address: str | None = None

    @property
    def group(self) -> str:
        """Returns the name by which its share is counted: visitors of one address are one."""
        return self.address or self.id

    def is_over(self, now: float) -> bool:
        """Returns whether its token is nobody's any more."""
        return self.revoked is not None or (self.expires is not None and self.expires <= now)


@dataclass(frozen=True)
class KeyRow:
    """A client's evaluation keys, or what has come of them."""

    client: str
    id: str
    model: str
    scheme: str
    plan: str
    bytes: int
    received: int
    sha256: str
    complete: bool
    used: float


@dataclass(frozen=True)
class RequestRow:
    """A request, from when all of it had come."""

    id: str
    client: str
    model: str
    scheme: str
    plan: str
    key: str
    sha256: str
    state: State
    came: float
    again: str | None = None
    deadline: float | None = None
    ended: float | None = None
    seconds: float | None = None
    response: str | None = None
    response_bytes: int | None = None
    signature: str | None = None
    problem: str | None = field(default=None, repr=False)


# The tables of the ledger. Times are Unix seconds, sizes bytes, hashes sha256 in hex; nothing here is a
# text, a key or a ciphertext: those are files, and the texts never come.

VERSION = 2  # PRAGMA user_version of the file

metadata = MetaData()

clients = Table(
    "clients",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("token", String(64), nullable=False, unique=True),  # sha256 of it
    Column("former", String(64)),  # sha256 of the one before the last rotation
    Column("former_until", Float),
    Column("expires", Float),  # after it no token is known; None: never
    Column("address", String(64)),  # network of a visitor; None: a client that an operator named
    Column("made", Float, nullable=False),
    Column("revoked", Float),
    Column("operator", Integer, nullable=False),  # 1: may read /metrics
    Column("texts", Integer),  # a day; None: any number
    Column("bytes", Integer),  # a day, both directions
    Column("seconds", Float),  # a day, of evaluation
    Column("keys", Integer),  # at the same time
    Column("per_minute", Integer),  # calls
    Column("tokens", Integer),  # a day, of texts that are written
)

# A name belongs to one client that is not revoked.
Index("one_name", clients.c.name, unique=True, sqlite_where=clients.c.revoked.is_(None))

keys = Table(
    "keys",
    metadata,
    Column("client", ForeignKey("clients.id"), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("model", String(200), nullable=False),
    Column("scheme", String(32), nullable=False),
    Column("plan", String(64), nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("received", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("complete", Integer, nullable=False),
    Column("used", Float, nullable=False),
    CheckConstraint("received >= 0 AND received <= bytes"),
)

requests = Table(
    "requests",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("client", ForeignKey("clients.id"), nullable=False),
    Column("again", String(64)),  # its idempotency key
    Column("model", String(200), nullable=False),
    Column("scheme", String(32), nullable=False),
    Column("plan", String(64), nullable=False),
    Column("key", String(32), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("came", Float, nullable=False),
    Column("deadline", Float),
    Column("ended", Float),
    Column("seconds", Float),
    Column("response", String(64)),  # sha256 of it
    Column("response_bytes", Integer),
    Column("signature", String(128)),
    Column("problem", String(8000)),  # JSON of wire.Problem
    UniqueConstraint("client", "again"),
    Index("by_state", "state", "came"),
)

usage = Table(
    "usage",
    metadata,
    Column("client", ForeignKey("clients.id"), primary_key=True),
    Column("day", Integer, primary_key=True),  # days since 1970
    Column("texts", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
)
