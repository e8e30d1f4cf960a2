"""The rows of the ledger as the rest of the service sees them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tacita.protocol.http.wire import State


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
    """A client. operator: may read the metrics. address: network of a visitor, see `core.visitors`; None for
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
        """What its share of queues and places is counted by: visitors of one address are one."""
        return self.address or self.id

    def is_over(self, now: float) -> bool:
        """Whether its token is nobody's any more."""
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


@dataclass(frozen=True)
class Used:
    """What was used: texts, tokens of texts that were written, bytes in both directions, seconds of
    evaluation."""

    texts: int = 0
    tokens: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: Used) -> Used:
        return self._each(other, operator.add)

    def __sub__(self, other: Used) -> Used:
        return self._each(other, operator.sub)

    def at_least(self, other: Used) -> Used:
        """The larger of the two, item by item."""
        return self._each(other, max)

    def _each(self, other: Used, combine: Callable[[Any, Any], Any]) -> Used:
        return Used(**{name: combine(value, getattr(other, name)) for name, value in vars(self).items()})
