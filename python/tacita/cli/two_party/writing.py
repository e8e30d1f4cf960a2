"""`tacita generate --connect`: a text written together with a server that sees neither the prompt nor what
comes behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tacita.cli.console import out
from tacita.cli.two_party.connect import Connection, dialled, greeted
from tacita.cli.two_party.connection import watching, writing_expectation
from tacita.client.dictation import Dictation, padded_slots
from tacita.client.two_party import TwoPartyClient
from tacita.errors import InputError, PeerError
from tacita.generation.generate import Request, ends_of, ids_of, speller
from tacita.generation.source import Token, generated
from tacita.protocol.party import Party
from tacita.tasks.kinds import require_kind


class Written:
    """One text over as many connections as it takes. Closed by `close`."""

    def __init__(self, how: Connection) -> None:
        self._how, self._parties = how, list[Party]()
        self._client = self._connected()

    def tokens(self, prompt: str, asked: Request) -> Iterator[Token]:
        """Token by token; says first what they will cost. Raises InputError, PeerError, RefusedError."""
        plan, front = self._client.plan, self._client.part.front
        require_kind("generate", plan)
        if asked.choice.top_k or asked.choice.seed is not None:
            raise InputError("generate: --top-k or --seed with --connect", hint="the server draws the token")
        ids = ids_of(front, prompt, begun=bool(plan.begin))
        slots = padded_slots(plan, len(ids), asked.max_tokens)
        out.print(f"expected: {writing_expectation(plan, slots)}", soft_wrap=True)
        with watching(plan, "prompt", {}) as watch:
            source = Dictation(self._client, asked.max_tokens, asked.choice.temperature, self._again, watch)
            tokens = generated(source, ids, speller(front), ends_of(plan.config, asked))
            first = next(tokens)
        yield first
        yield from tokens
        with suppress(PeerError):  # the text is here; a server that is gone by now changes nothing
            source.end()
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
