"""Callers without a token, where the server answers them: each is a client of its own for a day.

`GET /v1/models` offers a token to whoever shows none; the first call that shows it makes the visitor. So one
visitor sees nothing of another's, and has a quota of its own, while the visitors of an address are counted.
"""

from __future__ import annotations

from collections import OrderedDict

from tacita.errors import RefusedError
from tacita.service.ledger import Ledger, tokens
from tacita.service.ledger.rows import Quota, Who

MOST_OFFERED = 10_000  # tokens that nobody has shown yet; the oldest is forgotten first
MOST_A_DAY = 100  # visitors of one address
QUOTA = Quota(texts=100, bytes=20 * 10**9, seconds=1800.0, keys=2, per_minute=300)
STRANGER = Who("", "visitor", Quota(per_minute=None), address="")  # shows no token, and has nothing


class Visitors:
    """quota: of each. For the event loop's thread; what is offered does not survive a restart."""

    def __init__(self, ledger: Ledger, quota: Quota) -> None:
        self._ledger, self._quota = ledger, quota
        self._offered: OrderedDict[str, None] = OrderedDict()

    def offer(self) -> str:
        """A token for a caller that shows none."""
        self._offered[token := tokens.new()] = None
        if len(self._offered) > MOST_OFFERED:
            self._offered.popitem(last=False)
        return token

    def admit(self, token: str, address: str) -> Who | None:
        """The visitor that an offered token makes; None for a token that was not offered. Raises RefusedError
        for an address that had its visitors of a day."""
        if token not in self._offered:
            return None
        if tokens.visitors(self._ledger, address) >= MOST_A_DAY:
            raise RefusedError(
                f"{MOST_A_DAY} visitors came from this address within a day", hint="come back tomorrow"
            )
        del self._offered[token]
        return tokens.visit(self._ledger, token, address, self._quota)
