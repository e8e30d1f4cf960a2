"""Asks a connected scheme: the two-party protocol, carried by a WebSocket of the same service.

A connection stays for the next texts, so that its keys are set up once. This is the one part of the remote
client that runs a model's blocks; it has no weights either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tacita.client.cost import Meter
from tacita.client.public_cache import PublicCache
from tacita.client.renewable import RenewableSession
from tacita.client.threads import Report, in_thread
from tacita.errors import PeerError
from tacita.plans.answers import Answer
from tacita.plans.wire import Offer
from tacita.progress import Progress
from tacita.texts.embed import Text
from tacita.texts.embedding import Embedder
from tacita.texts.generation import TextOptions, Token
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Party

T = TypeVar("T")
Dial = Callable[[], Party]


@dataclass
class Steps:
    """Reports the steps of a text as they begin. report: of the call that computes now."""

    report: Report
    began: float

    def __call__(self, step: str) -> None:
        self.report(Progress(step, 0, 1, time.monotonic() - self.began, 0.0))


class Connected:
    """A session that sends texts one by one over one connection. It computes one step at a time: answers to
    some texts, or a token of a generated one; each text that is generated meanwhile has a connection of its
    own.

    dial: makes a new connection. `connected` makes the session, in a thread.
    """

    def __init__(self, dial: Dial, offer: Offer, cache: PublicCache) -> None:
        self._dial, self._offer, self._cache = dial, offer, cache
        self._turn = asyncio.Lock()
        first = self._new()
        self.part, self._all, self._resting = first.part, {first}, [first]

    @property
    def plan(self) -> TwoPartyPlan:
        """The plan that both sides agreed on."""
        return self.part.plan

    @property
    def offer(self) -> Offer:
        """The server's offer of this plan."""
        return self._offer

    @property
    def front(self) -> Embedder:
        """The tokenizer, and the embedding where it is published."""
        return self.part.front

    async def answer(self, texts: Sequence[Text], meter: Meter, report: Report) -> list[Answer]:
        """Answers the texts one after the other. Raises InputError, RefusedError, PeerError."""
        return await self._step(lambda now: self._answers(texts, meter, now), meter, report)

    async def generate(
        self, prompt: str, options: TextOptions, meter: Meter, report: Report
    ) -> AsyncGenerator[Token, None]:
        """Yields tokens as they come; closing the iterator early ends the text. Raises InputError before
        anything is sent, RefusedError, PeerError."""
        steps = Steps(report, time.monotonic())
        tokens = self._tokens(prompt, options, meter, steps)

        def following(now: Report) -> Token | None:
            steps.report = now
            return next(tokens, None)

        try:
            while (token := await self._step(following, meter, report)) is not None:
                yield token
        finally:
            await self._step(lambda _: tokens.close(), meter, report)

    async def close(self) -> None:
        """Ends the sessions and closes their connections; a text that is being generated stops."""
        async with self._turn:
            await in_thread(lambda _: self._close())

    async def _step(self, action: Callable[[Report], T], meter: Meter, report: Report) -> T:
        async with self._turn:
            with meter.step("evaluate"):
                return await in_thread(action, report)

    def _answers(self, texts: Sequence[Text], meter: Meter, report: Report) -> list[Answer]:
        with self._lent(meter) as session:
            return [session.classify(text, Steps(report, time.monotonic())) for text in texts]

    def _tokens(
        self, prompt: str, options: TextOptions, meter: Meter, steps: Steps
    ) -> Generator[Token, None, None]:
        with self._lent(meter) as session:
            yield from session.generate(prompt, options, steps)

    @contextmanager
    def _lent(self, meter: Meter) -> Iterator[RenewableSession]:
        """Lends a session that no other text uses, and counts its bytes. One session is kept for the next."""
        session = self._resting.pop() if self._resting else self._new()
        self._all.add(session)
        before = session.cost
        try:
            yield session
        finally:
            cost = session.cost
            meter.sent += int(cost["bytes_sent"] - before["bytes_sent"])
            meter.received += int(cost["bytes_received"] - before["bytes_received"])
            if self._resting:
                self._all.remove(session)
                session.close(politely=True)
            else:
                self._resting.append(session)

    def _close(self) -> None:
        for session in self._all:
            session.close(politely=session in self._resting)

    def _new(self) -> RenewableSession:
        return RenewableSession(self._dial, self._handshake)

    def _handshake(self, party: Party) -> TwoPartyClient:
        """Returns a client after the handshake. Raises PeerError where its plan is not what was offered."""
        client = TwoPartyClient(party, self._cache)
        if client.plan.hash != self._offer.plan:
            raise PeerError(
                f"plan {client.plan.hash[:12]}, offered was {self._offer.plan[:12]}",
                hint="the server serves another plan now: connect again",
            )
        return client


async def connected(dial: Dial, offer: Offer, cache: Path) -> Connected:
    """Opens a session: connects and shakes hands. cache: folder of public parts. Raises PeerError,
    RefusedError."""
    return await in_thread(lambda _: Connected(dial, offer, PublicCache(cache)))
