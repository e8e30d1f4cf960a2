"""A client's session that outlives the key of a hidden table: when the server changes that, the client
connects again by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tacita.client.answer import Answer
from tacita.client.two_party import TwoPartyClient
from tacita.errors import PeerError, RefusedError
from tacita.front.embed import Text
from tacita.protocol.party import Party
from tacita.protocol.refusal import Reason
from tacita.two_party.shares import Watch

TRIES = 3  # connections for one text: others may use a new key up first


class RenewableSession:
    """connect: dials. greet: a client of that connection. Raises what these raise."""

    def __init__(self, connect: Callable[[], Party], greet: Callable[[Party], TwoPartyClient]) -> None:
        self._connect, self._greet = connect, greet
        self._earlier: dict[str, float] = {}
        self._operations: list[Mapping[str, Any]] = []
        self._party = connect()
        self.client = self._greeted()

    def classify(self, text: Text, watch: Watch) -> Answer:
        """As `TwoPartyClient.classify`, under a new key of the server's table if need be."""
        for _ in range(TRIES - 1):
            try:
                return self.client.classify(text, watch)
            except RefusedError as error:
                if error.reason != Reason.KEY:
                    raise
            self._renew()
        return self.client.classify(text, watch)

    @property
    def cost(self) -> dict[str, float]:
        """Bytes and rounds of all connections."""
        return {name: value + self._earlier.get(name, 0.0) for name, value in self._party.cost.items()}

    def profile(self) -> list[dict[str, Any]]:
        """What each operation cost, by path, over all connections."""
        total: dict[str, dict[str, Any]] = {}
        for row in (*self._operations, *self._party.profile()):
            sum_ = total.setdefault(row["path"], {"path": row["path"]})
            for name in row.keys() - {"path"}:
                sum_[name] = sum_.get(name, 0) + row[name]
        return list(total.values())

    def close(self) -> None:
        """Hangs up."""
        self._party.close()

    def _renew(self) -> None:
        plan = self.client.plan.hash
        self._earlier = self.cost
        self._operations += self._party.profile()
        self._party.close()
        self._party = self._connect()
        self.client = self._greeted()
        if self.client.plan.hash != plan:
            raise PeerError("the server serves another plan now", hint="start again")

    def _greeted(self) -> TwoPartyClient:
        try:
            return self._greet(self._party)
        except BaseException:
            self._party.close()
            raise
