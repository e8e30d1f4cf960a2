"""The rows of the ledger as the rest of the service sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacita.protocol.http.wire import State


@dataclass(frozen=True)
class Quota:
    """What a client may take; None: any number. texts, bytes (both directions), seconds (of evaluation): a
    day. keys: at the same time. per_minute: calls."""

    texts: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    keys: int | None = 4
    per_minute: int | None = 600


@dataclass(frozen=True)
class Who:
    """A client. operator: may read the metrics."""

    id: str
    name: str
    quota: Quota
    operator: bool = False
    made: float = 0.0
    revoked: float | None = None


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


@dataclass(frozen=True)
class Used:
    """Of one client on one day."""

    texts: int = 0
    bytes: int = 0
    seconds: float = 0.0
