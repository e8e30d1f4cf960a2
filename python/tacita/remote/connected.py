"""What is asked of a connected scheme: the two-party protocol, carried by a WebSocket of the same service.

A connection stays for the next texts, so that its keys are set up once. This is the one part of the remote
client that walks over a model's blocks; weights it has none either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tacita.client.answer import Answer
from tacita.client.public_cache import PublicCache
from tacita.client.two_party import TwoPartyClient
from tacita.errors import GoneError, InputError, PeerError, RefusedError
from tacita.front.embed import Text
from tacita.front.front import Embedder
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.protocol.http.wire import Offer
from tacita.protocol.party import Party
from tacita.protocol.refusal import Reason
from tacita.remote.cost import Meter
from tacita.remote.threads import Report, in_thread
from tacita.run.executor import Progress

TRIES = 3  # connections for one text: the server's key of a hidden table may be used up by others
Dial = Callable[[], Party]


class Connected:
    """Texts asked one after the other: a connection carries one at a time.

    dial: a new connection. Made by `connected`, in a thread.
    """

    def __init__(self, dial: Dial, offer: Offer, cache: PublicCache) -> None:
        self._dial, self._offer, self._cache = dial, offer, cache
        self._turn = asyncio.Lock()
        self._client: TwoPartyClient | None = None
        self._rested = False  # whether the connection is one that has answered before
        self.part = self._greeted().part

    @property
    def plan(self) -> TwoPartyPlan:
        """The agreed one."""
        return self.part.plan

    @property
    def offer(self) -> Offer:
        """What the server says of it."""
        return self._offer

    @property
    def front(self) -> Embedder:
        """Tokenizer, and the embedding where it is published."""
        return self.part.front

    async def answer(self, texts: Sequence[Text], meter: Meter, report: Report) -> list[Answer]:
        """One after the other. Raises InputError, RefusedError, PeerError."""
        async with self._turn:
            with meter.step("evaluate"):
                return await in_thread(
                    lambda told: [self._answer(text, meter, told) for text in texts], report
                )

    async def close(self) -> None:
        """Says goodbye and hangs up."""
        async with self._turn:
            await in_thread(lambda _: self._hang_up(politely=True))

    def _answer(self, text: Text, meter: Meter, report: Report) -> Answer:
        for tries in range(TRIES, 0, -1):
            rested, client = self._rested, self._client or self._greeted()
            try:
                answer = self._classified(client, text, meter, report)
                self._rested = True
                return answer
            except InputError:
                raise  # nothing was sent
            except BaseException as error:
                self._hang_up()
                if tries == 1 or not _passing(error, rested):
                    raise
        raise AssertionError("the last try returns or raises")

    def _classified(self, client: TwoPartyClient, text: Text, meter: Meter, report: Report) -> Answer:
        before, began = client.party.cost, time.monotonic()
        try:
            return client.classify(
                text, lambda step: report(Progress(step, 0, 1, time.monotonic() - began, 0.0))
            )
        finally:
            cost = client.party.cost
            meter.sent += int(cost["bytes_sent"] - before["bytes_sent"])
            meter.received += int(cost["bytes_received"] - before["bytes_received"])

    def _greeted(self) -> TwoPartyClient:
        """A new connection. Raises PeerError where its plan is not what was offered."""
        party = self._dial()
        try:
            client = TwoPartyClient(party, self._cache)
            if client.plan.hash != self._offer.plan:
                raise PeerError(
                    f"plan {client.plan.hash[:12]}, offered was {self._offer.plan[:12]}",
                    hint="the server serves another plan now: connect again",
                )
        except BaseException:
            party.close()
            raise
        self._client = client
        return client

    def _hang_up(self, *, politely: bool = False) -> None:
        client, self._client, self._rested = self._client, None, False
        if client is None:
            return
        try:
            if politely:
                client.end()
        except PeerError:
            return  # it is gone already
        finally:
            client.party.close()


def _passing(error: BaseException, rested: bool) -> bool:
    """Whether a new connection may answer: the server's key was used up, or it has closed a connection that
    lay still since the last answer."""
    if isinstance(error, RefusedError):
        return error.reason == Reason.KEY
    return rested and isinstance(error, GoneError)


async def connected(dial: Dial, offer: Offer, cache: Path) -> Connected:
    """A session that has greeted. cache: folder of public parts. Raises PeerError, RefusedError."""
    return await in_thread(lambda _: Connected(dial, offer, PublicCache(cache)))
