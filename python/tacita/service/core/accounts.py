"""What a two-party session takes of its client's quota: reserved in the ledger when a text is admitted,
counted while it goes on, and given back where it was not used."""

from __future__ import annotations

from tacita.errors import ResourceError
from tacita.protocol.refusal import Reason, Refusal
from tacita.service.core.jobs import Jobs
from tacita.service.ledger import tokens, usage
from tacita.service.ledger.rows import Used, Who
from tacita.service.two_party.lane import Ended
from tacita.service.watch import logs


class Account:
    """One session's: a `two_party.lane.Guest`. who: as the ledger knew the client when it came. A text counts
    for the day on which it was admitted."""

    def __init__(self, jobs: Jobs, who: Who, model: str) -> None:
        self._jobs, self._ledger, self._who, self._model = jobs, jobs.ledger, who, model
        self._charged, self._day = Used(), jobs.ledger.clock()

    @property
    def name(self) -> str:
        """What its share of places is counted by."""
        return self._who.group

    def admit(self, used: Used, asked: Used) -> Refusal | None:
        """Reserves what is asked for. Returns a refusal where the quota holds no more or nothing can be
        written down, and for a client that is revoked or has expired."""
        self.settle(used)
        self._day = self._ledger.clock()
        if (who := self._current()) is None:
            return Refusal(Reason.CLIENT, 0)
        try:
            what = usage.reserve(self._ledger, who, asked)
        except ResourceError:
            return Refusal(Reason.FULL, 0)
        if what:
            later = usage.seconds_to_midnight(self._ledger)
            texts = Refusal(Reason.CLIENT, who.quota.texts or 0)
            return texts if what == "texts" else Refusal(Reason.QUOTA, later)
        self._charged += asked
        return None

    def note(self, used: Used) -> bool:
        """Charges what was used beyond what was reserved. Returns whether the client may go on."""
        self._charge(self._charged.at_least(used))
        who = self._current()
        return who is not None and usage.lacking(self._ledger, who, Used(), self._day) is None

    def settle(self, used: Used) -> None:
        """No text is under way: what was reserved and not used is given back."""
        self._charge(used)

    def ended(self, session: Ended) -> None:
        """Tells metrics and log."""
        carried, metrics = session.bytes_sent + session.bytes_received, self._jobs.metrics
        metrics.session(self._model, session.texts, session.seconds)
        metrics.carried("two-party", "in", session.bytes_received)
        metrics.carried("two-party", "out", session.bytes_sent)
        said = {"texts": session.texts, "bytes": carried, "ending": session.ending}
        seconds = round(session.seconds, 3)
        logs.say("session", client=self._who.id, model=self._model, seconds=seconds, **said)

    def _current(self) -> Who | None:
        """The client as the ledger knows it now, unless its token is nobody's any more."""
        who = tokens.of_id(self._ledger, self._who.id)
        return None if who.is_over(self._ledger.clock()) else who

    def _charge(self, used: Used) -> None:
        """So much in all."""
        if used != self._charged:
            self._jobs.charge(self._who.id, used - self._charged, self._day)
            self._charged = used
