"""The rows of the ledger, each the declaration of its table. Times are Unix seconds, sizes bytes, hashes
sha256 in hex; nothing here is a text, a key or a ciphertext: those are files, and the texts never come."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import CheckConstraint, Enum, ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, composite
from sqlalchemy.orm import mapped_column as column

from tacita.plans.wire import State

# PRAGMA user_version of the file, and what leads to it from each version before, from 1 on. A release that
# changes a table adds a step, and none is ever changed: ledgers of every earlier release go through them.
STEPS: tuple[tuple[str, ...], ...] = (
    (  # to 2: expiry and rotation of tokens, visitors, texts that are written
        *(f"ALTER TABLE clients ADD COLUMN {each}" for each in ("tokens INTEGER", "expires DOUBLE")),
        *(f"ALTER TABLE clients ADD COLUMN {each} VARCHAR(64)" for each in ("address", "former")),
        "ALTER TABLE clients ADD COLUMN former_until DOUBLE",
        "ALTER TABLE usage ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0",
    ),
    (  # to 3: rows of texts that are kept
        *(f"ALTER TABLE clients ADD COLUMN {each} INTEGER" for each in ("caches", "cache_bytes")),
        "UPDATE clients SET caches = 2, cache_bytes = 10000000000",
    ),
    ("CREATE INDEX by_former ON clients (former) WHERE former IS NOT NULL",),  # to 4
)
VERSION = 1 + len(STEPS)
ID, NAME, MODEL, SCHEME, HASH = String(32), String(64), String(200), String(32), String(64)


@dataclass(frozen=True)
class Quota:
    """What a client may take; None: any number. texts, tokens (of texts that are written), bytes (both
    directions), seconds (of evaluation): a day. keys, and caches, cache_bytes (texts whose rows are kept, and
    their bytes): at the same time. per_minute: calls."""

    texts: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    keys: int | None = 4
    per_minute: int | None = 600
    tokens: int | None = None
    caches: int | None = 2
    cache_bytes: int | None = 10**10


class Row(MappedAsDataclass, DeclarativeBase):
    """A row of the ledger."""


class Who(Row):
    """A client. operator: may read the metrics. address: network of a visitor, see `core.accounts`; None for
    a client that an operator named. token: hash of it; former: of the one before the last rotation."""

    __tablename__ = "clients"
    # A name belongs to one client that is not revoked. Every call asks whose a token is, or was.
    __table_args__ = (
        Index("one_name", "name", unique=True, sqlite_where=text("revoked IS NULL")),
        Index("by_former", "former", sqlite_where=text("former IS NOT NULL")),
    )

    id: Mapped[str] = column(ID, primary_key=True)
    name: Mapped[str] = column(NAME)
    quota: Mapped[Quota] = composite(
        *map(column, ("texts", "bytes", "seconds", "keys", "per_minute", "tokens", "caches", "cache_bytes"))
    )
    operator: Mapped[bool] = column(default=False)
    made: Mapped[float] = column(default=0.0)
    revoked: Mapped[float | None] = column(default=None)
    expires: Mapped[float | None] = column(default=None)
    address: Mapped[str | None] = column(NAME, default=None)
    token: Mapped[str] = column(HASH, unique=True, default="", repr=False, compare=False)
    former: Mapped[str | None] = column(HASH, default=None, repr=False, compare=False)
    former_until: Mapped[float | None] = column(default=None, compare=False)

    @property
    def group(self) -> str:
        """Returns the name by which its share is counted: visitors of one address are one."""
        return self.address or self.id

    def is_over(self, now: float) -> bool:
        """Returns whether its token is nobody's any more."""
        return self.revoked is not None or (self.expires is not None and self.expires <= now)


class KeyRow(Row):
    """A client's evaluation keys, or what has come of them."""

    __tablename__ = "keys"
    __table_args__ = (CheckConstraint("received >= 0 AND received <= bytes"),)

    client: Mapped[str] = column(ForeignKey(Who.id), primary_key=True)
    id: Mapped[str] = column(ID, primary_key=True)
    model: Mapped[str] = column(MODEL)
    scheme: Mapped[str] = column(SCHEME)
    plan: Mapped[str] = column(HASH)
    bytes: Mapped[int]
    received: Mapped[int]
    sha256: Mapped[str] = column(HASH)
    complete: Mapped[bool]
    used: Mapped[float]


class RequestRow(Row):
    """A request, from when all of it had come. again: its idempotency key. response: hash of it. problem:
    JSON of `wire.Problem`."""

    __tablename__ = "requests"
    __table_args__ = (UniqueConstraint("client", "again"), Index("by_state", "state", "came"))

    id: Mapped[str] = column(ID, primary_key=True)
    client: Mapped[str] = column(ForeignKey(Who.id))
    model: Mapped[str] = column(MODEL)
    scheme: Mapped[str] = column(SCHEME)
    plan: Mapped[str] = column(HASH)
    key: Mapped[str] = column(ID)
    sha256: Mapped[str] = column(HASH)
    state: Mapped[State] = column(Enum(State, native_enum=False, length=16))
    came: Mapped[float]
    again: Mapped[str | None] = column(String(64), default=None)
    deadline: Mapped[float | None] = column(default=None)
    ended: Mapped[float | None] = column(default=None)
    seconds: Mapped[float | None] = column(default=None)
    response: Mapped[str | None] = column(HASH, default=None)
    response_bytes: Mapped[int | None] = column(default=None)
    signature: Mapped[str | None] = column(String(128), default=None)
    problem: Mapped[str | None] = column(String(8000), default=None, repr=False)


class Usage(Row):
    """What a client used on a day. day: days since 1970."""

    __tablename__ = "usage"

    client: Mapped[str] = column(ForeignKey(Who.id), primary_key=True)
    day: Mapped[int] = column(primary_key=True)
    texts: Mapped[int]
    tokens: Mapped[int]
    bytes: Mapped[int]
    seconds: Mapped[float]
