"""What each client took on a day (UTC), beside its quota.

What is admitted is charged before it is computed, so that calls at the same time cannot take more than there
is; what was not used is given back.
"""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.dialects.sqlite import insert

from tacita.server.sessions.messages import Used
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import Usage, Who

DAY = 86400


def charge(
    ledger: Ledger,
    client: str,
    *,
    texts: int = 0,
    tokens: int = 0,
    bytes: int = 0,
    seconds: float = 0.0,
    at: float | None = None,
) -> None:
    """Adds to what the client used on the day of `at` (Unix seconds; default: now). Numbers below 0 give
    back, down to nothing."""
    added = {"texts": texts, "tokens": tokens, "bytes": bytes, "seconds": seconds}
    day = int((ledger.clock() if at is None else at) // DAY)
    row = insert(Usage).values(client=client, day=day, **{name: max(0, n) for name, n in added.items()})
    sums = {name: func.max(0, getattr(Usage, name) + value) for name, value in added.items()}
    ledger.run(row.on_conflict_do_update(["client", "day"], set_=sums))


def today(ledger: Ledger, client: str, at: float | None = None) -> Used:
    """Returns what a client used since midnight, or on the day of `at`."""
    day = int((ledger.clock() if at is None else at) // DAY)
    row = ledger.one(select(Usage).where(Usage.client == client, Usage.day == day))
    return Used() if row is None else Used(row.texts, row.tokens, row.bytes, row.seconds)


def lacking(ledger: Ledger, who: Who, wanted: Used, at: float | None = None) -> str | None:
    """Returns the first item of which the client's quota does not hold so much more, today or on the day of
    `at`."""
    for name, value in vars(today(ledger, who.id, at) + wanted).items():
        most = getattr(who.quota, name)
        if most is not None and value > most:
            return name
    return None


def reserve(ledger: Ledger, who: Who, wanted: Used) -> str | None:
    """Charges what is about to be used, unless an item lacks, whose name is returned."""
    if what := lacking(ledger, who, wanted):
        return what
    charge(ledger, who.id, **vars(wanted))
    return None


def seconds_to_midnight(ledger: Ledger) -> int:
    """Returns the seconds until quotas are whole again."""
    return int(DAY - ledger.clock() % DAY) + 1
