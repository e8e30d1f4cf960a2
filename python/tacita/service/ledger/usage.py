"""What each client took on a day (UTC), beside its quota."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert

from tacita.service.ledger.ledger import Ledger
from tacita.service.ledger.rows import Used, Who
from tacita.service.ledger.tables import usage

DAY = 86400


def charge(ledger: Ledger, client: str, *, texts: int = 0, bytes: int = 0, seconds: float = 0.0) -> None:
    """Adds to today's."""
    added = {"texts": texts, "bytes": bytes, "seconds": seconds}
    row = insert(usage).values(client=client, day=int(ledger.clock() // DAY), **added)
    sums = {name: usage.c[name] + value for name, value in added.items()}
    with ledger.change() as db:
        db.execute(row.on_conflict_do_update(["client", "day"], set_=sums))


def today(ledger: Ledger, client: str) -> Used:
    """What a client took since midnight."""
    named = (usage.c.client == client) & (usage.c.day == int(ledger.clock() // DAY))
    with ledger.look() as db:
        row = db.execute(select(usage.c.texts, usage.c.bytes, usage.c.seconds).where(named)).one_or_none()
    return Used() if row is None else Used(*row)


def exceeded(ledger: Ledger, who: Who) -> str | None:
    """The first of texts, bytes and seconds that the client has no more of today."""
    used = today(ledger, who.id)
    for name in ("texts", "bytes", "seconds"):
        most = getattr(who.quota, name)
        if most is not None and getattr(used, name) >= most:
            return name
    return None


def texts_left(ledger: Ledger, who: Who) -> int | None:
    """That the client may still ask today; None: any number."""
    most = who.quota.texts
    return None if most is None else max(0, most - today(ledger, who.id).texts)


def seconds_to_midnight(ledger: Ledger) -> int:
    """When quotas are whole again."""
    return int(DAY - ledger.clock() % DAY) + 1
