"""The tables of the ledger. Times are Unix seconds, sizes bytes, hashes sha256 in hex; nothing here is a
text, a key or a ciphertext: those are files, and the texts never come.
"""

from __future__ import annotations

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
