"""What a two-party session takes of its client's quota: reserved in the ledger when a text is admitted,
counted while it goes on, and given back where it was not used."""

from __future__ import annotations

from tacita.errors import TacitaError
from tacita.protocol.refusal import Reason, Refusal
from tacita.service.ledger import Ledger, tokens, usage
from tacita.service.ledger.rows import Used
from tacita.service.two_party.lane import Ended
from tacita.service.watch import logs
from tacita.service.watch.metrics import Metrics


class Account:
    """One session's: a `two_party.lane.Guest`. name: the client's id. A text counts for the day on which it
    was admitted."""

    def __init__(self, ledger: Ledger, metrics: Metrics, name: str, model: str) -> None:
        self._ledger, self._metrics, self._name, self._model = ledger, metrics, name, model
        self._charged, self._day = Used(), ledger.clock()

    @property
    def name(self) -> str:
        """The client's id: its sessions share places."""
        return self._name

    def admit(self, used: Used, text: Used) -> Refusal | None:
        """Reserves a text. Returns a refusal where the quota holds no more, and for a revoked client."""
        self.settle(used)
        who, self._day = tokens.of_id(self._ledger, self._name), self._ledger.clock()
        if who.revoked is not None:
            return Refusal(Reason.CLIENT, 0)
        what = usage.lacking(self._ledger, who, text)
        if what == "texts":
            return Refusal(Reason.CLIENT, who.quota.texts or 0)
        if what or not self._charge(used + text):
            return Refusal(Reason.QUOTA, usage.seconds_to_midnight(self._ledger))
        return None

    def note(self, used: Used) -> bool:
        """Charges what was used beyond what was reserved. Returns whether the client may go on."""
        self._charge(self._charged.at_least(used))
        who = tokens.of_id(self._ledger, self._name)
        return who.revoked is None and usage.lacking(self._ledger, who, Used(), self._day) is None

    def settle(self, used: Used) -> None:
        """No text is under way: what was reserved and not used is given back."""
        self._charge(used)

    def ended(self, session: Ended) -> None:
        """Tells metrics and log."""
        carried = session.bytes_sent + session.bytes_received
        self._metrics.session(self._model, session.texts, session.seconds)
        self._metrics.carried("two-party", "in", session.bytes_received)
        self._metrics.carried("two-party", "out", session.bytes_sent)
        said = {"texts": session.texts, "bytes": carried, "ending": session.ending}
        seconds = round(session.seconds, 3)
        logs.say("session", client=self._name, model=self._model, seconds=seconds, **said)

    def _charge(self, used: Used) -> bool:
        """So much in all. False where the ledger cannot be written, as on a full disk."""
        if used == self._charged:
            return True
        try:
            usage.charge(self._ledger, self._name, **vars(used - self._charged), at=self._day)
        except TacitaError as error:
            logs.warn("not charged", client=self._name, why=str(error.hint))
            return False
        self._charged = used
        return True
