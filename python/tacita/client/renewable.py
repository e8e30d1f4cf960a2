"""A client's session with a two-party server, over a port or a WebSocket, that outlives its connections.

When the server changes the key of a hidden table, or a connection breaks between two texts or two tokens, the
client connects again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tacita.errors import GoneError, InputError, PeerError, RefusedError
from tacita.plans.answers import Answer
from tacita.texts.embed import Text
from tacita.texts.generation import TextOptions, Token
from tacita.two_party.arithmetic.shares import Watch
from tacita.two_party.client import TwoPartyClient, connected
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Party
from tacita.two_party.protocol.public_part import PublicPart
from tacita.two_party.protocol.refusal import Reason

TRIES = 3  # connections for one text: others may use a new key up first


class RenewableSession:
    """A two-party session that connects again when it has to. connect: dials. handshake: agrees over that
    connection and returns its client. Methods raise what these raise."""

    def __init__(self, connect: Callable[[], Party], handshake: Callable[[Party], TwoPartyClient]) -> None:
        self._connect, self._handshake = connect, handshake
        self._earlier: dict[str, float] = {}
        self._operations: list[Mapping[str, Any]] = []
        self._client: TwoPartyClient | None = None
        self._rested = self._closed = False  # rested: the connection has answered before
        self._part: PublicPart | None = None
        self._part = self.client.part

    @property
    def part(self) -> PublicPart:
        """The public part of the server's model."""
        return self._part or self.client.part

    @property
    def plan(self) -> TwoPartyPlan:
        """The plan that both sides agreed on, the same over all connections."""
        return self.part.plan

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
            rested, client = self._rested, self.client
            try:
                answer = client.classify(text, watch)
                self._rested = True
                return answer
            except InputError:
                raise  # nothing was sent
            except BaseException as error:
                self.hang_up()
                if tries == 1 or not _passing(error, rested):
                    raise
        raise AssertionError("the last try returns or raises")

    def generate(self, prompt: str, options: TextOptions, watch: Watch) -> Generator[Token, None, None]:
        """Yields tokens as `two_party.client` does, over as many connections as it takes. Closing the
        iterator early ends the text. Raises InputError at once."""
        return self._guarded(connected(self.client, prompt, options, self._again, watch))

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
        client, self._client, self._rested = self._client, None, False
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
            self._rested = True
            raise
        except BaseException:
            self.hang_up()
            raise
        self._rested = True

    def _again(self) -> TwoPartyClient:
        self.hang_up()
        return self.client

    def _open_client(self) -> TwoPartyClient:
        party = self._connect()
        try:
            client = self._handshake(party)
            if self._part and client.plan.hash != self._part.plan.hash:
                raise PeerError("the server serves another plan now", hint="start again")
        except BaseException:
            party.close()
            raise
        return client


def _passing(error: BaseException, rested: bool) -> bool:
    """Tells whether a new connection may answer: the server's key was used up, or the server has closed a
    connection that was idle since the last answer."""
    if isinstance(error, RefusedError):
        return error.reason == Reason.KEY
    return rested and isinstance(error, GoneError)
