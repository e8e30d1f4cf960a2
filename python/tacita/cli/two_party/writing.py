"""`tacita generate --connect`: a text written together with a server that sees neither the prompt nor what
comes behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tacita.cli.console import out
from tacita.cli.two_party.connect import Connection, dialled, greeted
from tacita.cli.two_party.connection import watching, writing_expectation
from tacita.client.dictation import padded_slots
from tacita.client.two_party import TwoPartyClient
from tacita.errors import PeerError
from tacita.generation.connected import connected
from tacita.generation.request import Request, ids_of
from tacita.generation.source import Token
from tacita.protocol.party import Party


class Written:
    """One text over as many connections as it takes. Closed by `close`."""

    def __init__(self, how: Connection) -> None:
        self._how, self._parties = how, list[Party]()
        self._client = self._connected()

    def tokens(self, prompt: str, asked: Request) -> Iterator[Token]:
        """Token by token; says first what they will cost. Raises InputError, PeerError, RefusedError."""
        plan = self._client.plan
        with watching(plan, "prompt", {}) as watch:
            tokens = connected(self._client, prompt, asked, self._again, watch)
            count = len(ids_of(self._client.part.front, prompt, begun=bool(plan.begin)))
            slots = padded_slots(plan, count, asked.max_tokens)
            chance = asked.choice.temperature, asked.choice.top_k
            out.print(f"expected: {writing_expectation(plan, slots, *chance)}", soft_wrap=True)
            first = next(tokens)
        yield first
        yield from tokens
        with suppress(PeerError):
            self._client.end()

    @property
    def cost(self) -> dict[str, float]:
        """Bytes and rounds of all connections."""
        costs = [party.cost for party in self._parties]
        return {name: sum(cost[name] for cost in costs) for name in costs[0]}

    def close(self) -> None:
        """Hangs up."""
        for party in self._parties:
            party.close()

    def _again(self) -> TwoPartyClient:
        plan = self._client.plan.hash
        self._client = self._connected()
        if self._client.plan.hash != plan:
            raise PeerError("the server serves another plan now", hint="start again")
        return self._client

    def _connected(self) -> TwoPartyClient:
        self._parties.append(dialled(self._how))
        return greeted(self._parties[-1])
