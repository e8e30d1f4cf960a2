"""Asks a connected scheme: the two-party protocol, carried by a WebSocket of the same service.

A connection stays for the next texts, so that its keys are set up once. This is the one part of the remote
client that runs a model's blocks; it has no weights either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tacita.client.calls import Meter, Report, in_thread
from tacita.client.store import PublicCache, cache_folder
from tacita.errors import GoneError, InputError, PeerError, RefusedError
from tacita.plans.answers import Answer
from tacita.plans.commitment import LinkSpeed
from tacita.plans.wire import Model, Models, Offer
from tacita.progress import Progress
from tacita.texts.embed import Text
from tacita.texts.generation import TextOptions, Token
from tacita.two_party.client import TwoPartyClient, most_slots
from tacita.two_party.client import connected as generation
from tacita.two_party.program.run import Watch
from tacita.two_party.protocol.party import Party
from tacita.two_party.protocol.refusal import Reason
from tacita.version import __version__

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

    dial: makes a new connection; the first is made at once, so that a session is opened in a thread. cache:
    folder of public parts. prepared: texts whose products are made while nothing is asked. link: see
    `TwoPartyClient.adapt`. Raises PeerError, RefusedError.
    """

    def __init__(
        self, dial: Dial, offer: Offer, cache: Path, prepared: int = 0, link: LinkSpeed | None = None
    ) -> None:
        self._dial, self._cache, self._prepared, self._link = dial, PublicCache(cache), prepared, link
        self._ahead: asyncio.Task[None] | None = None
        self._turn, self.offer = asyncio.Lock(), offer
        first = self._new()
        self._all, self._resting = {first}, [first]
        self.plan, self.front = first.part.plan, first.part.front

    async def answer(self, texts: Sequence[Text], meter: Meter, report: Report) -> list[Answer]:
        """Answers the texts one after the other. Raises InputError, RefusedError, PeerError."""

        def answers(now: Report) -> list[Answer]:
            with self._lent(meter) as session:
                return [session.classify(text, Steps(now, time.monotonic())) for text in texts]

        try:
            return await self._step(answers, meter, report)
        finally:
            self._prepare_ahead()

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
            self._prepare_ahead()

    async def generate_batch(
        self, prompts: Sequence[str], options: TextOptions, meter: Meter, report: Report
    ) -> AsyncGenerator[tuple[int, Token], None]:
        """Yields the number of a text, from 0, and its next token, one text after the other: two parties
        compute one at a time. Raises InputError before anything is sent, RefusedError, PeerError."""
        most_slots(self.plan, self.front, prompts, options.max_tokens)  # or one is refused
        for number, prompt in enumerate(prompts):
            async with aclosing(self.generate(prompt, options, meter, report)) as tokens:
                async for token in tokens:
                    yield number, token

    async def prepare(self, meter: Meter, report: Report) -> None:
        """Prepares products for the texts to come, if it is to: the connection is there, and has no keys."""
        while await self._step(lambda now: self._prepare_map(Steps(now, time.monotonic())), meter, report):
            pass

    def _prepare_map(self, watch: Watch) -> bool:
        """Prepares one map of a text to come; a text that is asked meanwhile waits for no more than that.
        Returns whether another is to follow. A connection that breaks is made anew by the next text."""
        session = self._resting[-1] if self._resting else None
        if session is None or session.ready >= self._prepared:
            return False
        try:
            return session.client.prepare_map(watch)
        except BaseException as error:  # of a caller who left, too: the server waits for the rest of the map
            session.hang_up()
            if isinstance(error, PeerError | RefusedError):
                return False
            raise

    async def close(self) -> None:
        """Ends the sessions and closes their connections; a text that is being generated stops."""
        if self._ahead is not None:
            self._ahead.cancel()

        def close(_: Report) -> None:
            for session in self._all:
                session.close(politely=session in self._resting)

        async with self._turn:
            await in_thread(close)

    async def _step(self, action: Callable[[Report], T], meter: Meter, report: Report) -> T:
        async with self._turn:
            with meter.step("evaluate"):
                return await in_thread(action, report)

    def _prepare_ahead(self) -> None:
        """Has products prepared from now on, until there are enough."""
        if self._prepared and (self._ahead is None or self._ahead.done()):
            self._ahead = asyncio.create_task(self.prepare(Meter(), lambda now: None))

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

    def _new(self) -> RenewableSession:
        return RenewableSession(self._dial, self._handshake)

    def _handshake(self, party: Party) -> TwoPartyClient:
        """Returns a client after the handshake. Raises PeerError where its plan is not what was offered."""
        client = TwoPartyClient(party, self._cache)
        if client.plan.hash != self.offer.plan:
            raise PeerError(
                f"plan {client.plan.hash[:12]}, offered was {self.offer.plan[:12]}",
                hint="the server serves another plan now: connect again",
            )
        client.adapt(self._link)
        return client


def at_port(dial: Dial, prepared: int = 0, link: LinkSpeed | None = None) -> tuple[Connected, Models]:
    """Returns a session with a two-party server that is no service, and its model as a service would offer
    it. Raises PeerError, RefusedError."""
    first = TwoPartyClient(dial(), PublicCache())
    first.end()
    first.party.close()
    plan, kind = first.plan, {"scheme": first.plan.scheme, "plan": first.plan.hash, "connected": True}
    offer = Offer.model_validate({**kind, "batch": plan.batch, "tokens": plan.tokens, "seconds": 0.0})
    about = {"name": plan.name, "task": plan.task, "problem": plan.problem, "labels": plan.labels}
    model = Model.model_validate({**about, "offers": (offer,)})
    models = Models(release=__version__, signer="0" * 64, models=(model,))
    return Connected(dial, offer, cache_folder(), prepared, link), models


# A session with a two-party server, over a port or a WebSocket, that outlives its connections: when the
# server changes the key of a hidden table, or a connection breaks between two texts or two tokens, the client
# connects again by itself.

TRIES = 3  # connections for one text: others may use a new key up first


class RenewableSession:
    """A two-party session that connects again when it has to. connect: dials. handshake: agrees over that
    connection and returns its client. Methods raise what these raise. part: the public part of the server's
    model. plan: that both sides agreed on."""

    def __init__(self, connect: Callable[[], Party], handshake: Callable[[Party], TwoPartyClient]) -> None:
        self._connect, self._handshake = connect, handshake
        self._earlier: dict[str, float] = {}
        self._operations: list[Mapping[str, Any]] = []
        self._client: TwoPartyClient | None = None
        self._closed = False
        self._agreed = ""  # hash of the plan, the same over all connections
        self.part = self.client.part
        self.plan, self._agreed = self.part.plan, self.part.plan.hash

    @property
    def client(self) -> TwoPartyClient:
        """The client of the connection, which is made where there is none. Raises PeerError where the server
        serves another plan now, InputError after `close`."""
        if self._closed:
            raise InputError("the session with the server was closed", hint="connect again")
        if self._client is None:
            self._client = self._open_client()
        return self._client

    def classify(self, text: Text, watch: Watch) -> Answer:
        """Answers as `TwoPartyClient.classify`, over a new connection if need be."""
        for tries in range(TRIES, 0, -1):
            rested, client = self._client is not None, self.client
            try:
                return client.classify(text, watch)
            except InputError:
                raise  # nothing was sent
            except BaseException as error:
                self.hang_up()
                if tries == 1 or not _passing(error, rested):
                    raise
        raise AssertionError("the last try returns or raises")

    @property
    def ready(self) -> int:
        """Texts that are prepared over this connection."""
        return self._client.ahead.texts if self._client else 0

    def prepare(self, texts: int, watch: Watch) -> int:
        """Prepares as `TwoPartyClient.prepare`. What is prepared is gone with the connection."""
        return self.client.prepare(texts, watch)

    def generate(self, prompt: str, options: TextOptions, watch: Watch) -> Generator[Token, None, None]:
        """Yields tokens as `two_party.client` does, over as many connections as it takes. Closing the
        iterator early ends the text. Raises InputError at once."""
        return self._guarded(generation(self.client, prompt, options, self._again, watch))

    @property
    def cost(self) -> dict[str, float]:
        """The bytes and rounds of all connections."""
        cost = self._client.party.cost if self._client else dict.fromkeys(self._earlier, 0.0)
        return {name: value + self._earlier.get(name, 0.0) for name, value in cost.items()}

    def profile(self) -> list[dict[str, Any]]:
        """Returns the cost of each operation, by path, summed over all connections."""
        total: dict[str, dict[str, Any]] = {}
        now = self._client.party.profile() if self._client else []
        for row in (*self._operations, *now):
            sum_ = total.setdefault(row["path"], {"path": row["path"]})
            for name in row.keys() - {"path"}:
                sum_[name] = sum_.get(name, 0) + row[name]
        return list(total.values())

    def hang_up(self, *, politely: bool = False) -> None:
        """Closes the connection; the next text makes another. politely: tells the server first, if it is
        still there."""
        client, self._client = self._client, None
        if client is None:
            return
        with suppress(PeerError):
            if politely:
                client.end()
        client.party.close()
        cost = client.party.cost
        self._earlier = {name: value + self._earlier.get(name, 0.0) for name, value in cost.items()}
        self._operations += client.party.profile()

    def close(self, *, politely: bool = False) -> None:
        """Closes the connection for good."""
        self._closed = True
        self.hang_up(politely=politely)

    def _guarded(self, tokens: Iterator[Token]) -> Generator[Token, None, None]:
        """Yields the same tokens, and closes the connection if the text fails."""
        try:
            yield from tokens
        except GeneratorExit:  # the text was ended
            raise
        except BaseException:
            self.hang_up()
            raise

    def _again(self) -> TwoPartyClient:
        self.hang_up()
        return self.client

    def _open_client(self) -> TwoPartyClient:
        party = self._connect()
        try:
            client = self._handshake(party)
            if self._agreed not in ("", client.plan.hash):
                raise PeerError("the server serves another plan now", hint="start again")
        except BaseException:
            party.close()
            raise
        return client


def _passing(error: BaseException, rested: bool) -> bool:
    """Tells whether a new connection may answer: the server's key was used up, or the server has closed a
    connection that was idle. rested: whether the connection was there before this text."""
    if isinstance(error, RefusedError):
        return error.reason == Reason.KEY
    return rested and isinstance(error, GoneError)
