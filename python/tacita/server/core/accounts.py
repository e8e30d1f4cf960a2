"""Accounts of callers: quotas of two-party sessions, visitors without a token, rates of calls.

What a session takes of its client's quota is reserved in the ledger when a text is admitted, counted while it
goes on, and given back where it was not used.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from tacita.errors import RefusedError, ResourceError
from tacita.server import logs
from tacita.server.core.jobs import Jobs
from tacita.server.sessions.messages import Ended, Used
from tacita.server.store import tokens, usage
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import Quota, Who
from tacita.two_party.protocol.refusal import Reason, Refusal


class Account:
    """The quota of one session's client: a `sessions.messages.Client`. who: as the ledger knew the client
    when it came. A text counts for the day on which it was admitted."""

    def __init__(self, jobs: Jobs, who: Who, model: str) -> None:
        self._jobs, self._ledger, self._who, self._model = jobs, jobs.ledger, who, model
        self._charged, self._day = Used(), jobs.ledger.clock()

    @property
    def name(self) -> str:
        """Returns the name by which its share of places is counted."""
        return self._who.group

    def places(self, sessions: int) -> int:
        """Returns all of so many places but one."""
        return max(1, sessions - 1)

    def admit(self, used: Used, wanted: Used) -> Refusal | None:
        """Reserves what is asked for. Returns a refusal where the quota holds no more or nothing can be
        written down, and for a client that is revoked or has expired."""
        self.settle(used)
        self._day = self._ledger.clock()
        if (who := self._current()) is None:
            return Refusal(Reason.CLIENT, 0)
        try:
            what = usage.reserve(self._ledger, who, wanted)
        except ResourceError:
            return Refusal(Reason.FULL, 0)
        if what:
            self._jobs.metrics.refused(f"quota-{what}")
            later = usage.seconds_to_midnight(self._ledger)
            texts = Refusal(Reason.CLIENT, who.quota.texts or 0)
            return texts if what == "texts" else Refusal(Reason.QUOTA, later)
        self._charged += wanted
        return None

    def note(self, used: Used) -> bool:
        """Charges what was used beyond what was reserved. Returns whether the client may go on."""
        self.settle(self._charged.at_least(used))
        who = self._current()
        return who is not None and usage.lacking(self._ledger, who, Used(), self._day) is None

    def settle(self, used: Used) -> None:
        """Charges the difference to what was charged or reserved before; `used` is the whole, and no text is
        under way."""
        if used != self._charged:
            self._jobs.charge(self._who.id, used - self._charged, self._day)
            self._charged = used

    def ended(self, session: Ended) -> None:
        """Adds the session to metrics and log."""
        carried, metrics = session.bytes_sent + session.bytes_received, self._jobs.metrics
        metrics.session(self._model, session.texts, session.seconds)
        metrics.carried("two-party", "in", session.bytes_received)
        metrics.carried("two-party", "out", session.bytes_sent)
        fields = {"texts": session.texts, "bytes": carried, "ending": session.ending}
        seconds = round(session.seconds, 3)
        logs.say("session", client=self._who.id, model=self._model, seconds=seconds, **fields)
        if tracing := self._jobs.tracing:
            tracing.session(session.seconds, client=self._who.id, model=self._model, **fields)

    def _current(self) -> Who | None:
        """Returns the client as the ledger knows it now, unless its token is nobody's any more."""
        who = tokens.of_id(self._ledger, self._who.id)
        return None if who.is_over(self._ledger.clock()) else who


# Callers without a token, where the server answers them: each is a client of its own for a day.
#
# `GET /v1/models` offers a token to whoever shows none; the first call that shows it makes the visitor. So
# one visitor sees nothing of another's, and has a quota of its own, while the visitors of an address are
# counted.

MOST_OFFERED = 10_000  # tokens that nobody has shown yet; the oldest is forgotten first
MOST_A_DAY = 100  # visitors of one address
QUOTA = Quota(texts=100, bytes=20 * 10**9, seconds=1800.0, keys=2, per_minute=300, caches=1)
STRANGER = Who("", "visitor", Quota(per_minute=None), address="")  # shows no token, and has nothing


class Visitors:
    """Callers without a token and the tokens that they are offered, for the event loop's thread. quota: of
    each visitor. Tokens that are only offered do not survive a restart."""

    def __init__(self, ledger: Ledger, quota: Quota) -> None:
        self._ledger, self._quota = ledger, quota
        self._offered: OrderedDict[str, None] = OrderedDict()

    def offer(self) -> str:
        """Returns a token for a caller that shows none."""
        self._offered[token := tokens.new()] = None
        if len(self._offered) > MOST_OFFERED:
            self._offered.popitem(last=False)
        return token

    def admit(self, token: str, address: str) -> Who | None:
        """Returns the visitor that an offered token makes; None for a token that was not offered. Raises
        RefusedError for an address that had its visitors of a day."""
        if token not in self._offered:
            return None
        if tokens.visitors(self._ledger, address) >= MOST_A_DAY:
            raise RefusedError(
                f"{MOST_A_DAY} visitors came from this address within a day", hint="come back tomorrow"
            )
        del self._offered[token]
        return tokens.visit(self._ledger, token, address, self._quota)


# How often somebody may call: a bucket that fills evenly and holds what a minute may bring.

MOST_NAMES = 10_000  # buckets; the one that was used longest ago goes first


class Rates:
    """Token buckets by name: their level, and since when. clock: seconds that do not go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._buckets = clock, OrderedDict[str, tuple[float, float]]()

    def wait(self, name: str, per_minute: int) -> float:
        """Takes a call from a name's bucket. Returns 0, or the seconds until there is one again.

        >>> rates = Rates(lambda: 0.0)
        >>> [rates.wait("me", 2) for _ in range(3)]
        [0.0, 0.0, 30.0]
        """
        now, rate = self._clock(), per_minute / 60
        level, since = self._buckets.pop(name, (per_minute, now))
        level = min(per_minute, level + rate * (now - since))
        self._buckets[name] = (level - 1 if level >= 1 else level), now
        if len(self._buckets) > MOST_NAMES:
            self._buckets.popitem(last=False)
        return 0.0 if level >= 1 else (1 - level) / rate
