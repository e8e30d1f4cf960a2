"""The client of a two-party session: greets, receives the public part, classifies texts with the server.
Needs no model folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tacita.client.answer import Answer, judge, understood
from tacita.errors import InputError, PeerError
from tacita.front.embed import Text, embed, padded_words, tokenize
from tacita.front.front import Embedder
from tacita.plans.two_party.plan import TwoPartyPlan, words_ring
from tacita.protocol import engine, handshake
from tacita.protocol.party import Party, received_table
from tacita.protocol.public_part import PublicPart
from tacita.tasks.task import NEXT
from tacita.two_party.base import Array
from tacita.two_party.residues import Share
from tacita.two_party.shares import Known, SharedTensors, Watch

if TYPE_CHECKING:
    from tacita._native import TableClient


class TwoPartyClient:
    """One session. The party is closed by whoever made it.

    part: what the server published. Every method raises PeerError when the server is gone, late or breaks the
    protocol.
    """

    def __init__(
        self, party: Party, cache: handshake.Cache, loaded: handshake.Loaded = lambda done, total: None
    ) -> None:
        self._party = party
        with talking("greeting"):
            self.part: PublicPart = handshake.greet(party, cache, loaded)
        self._table = self._received_table()
        self._ready = False

    @property
    def party(self) -> Party:
        """The connection."""
        return self._party

    @property
    def plan(self) -> TwoPartyPlan:
        """The agreed plan."""
        return self.part.plan

    def classify(self, text: Text, watch: Watch = lambda stage: None) -> Answer:
        """The server's model on a text that it does not see; of a decoder, see `client.dictation`.

        Raises InputError before anything is sent, RefusedError.
        """
        plan = self.plan
        if plan.task == NEXT:
            raise InputError("classify: the model writes texts", hint="tacita.generate(model=client)")
        given, mask = self._given(text)
        with talking("classification"):
            handshake.ask(self._party)
            self.set_up(watch)
            known = Known(plan.formats, plan.bounds, plan.tokens, mask=mask)
            ops = SharedTensors(self._party.native, known, watch)
            shared = plan.run(ops, self.entered(ops, given))
            answer = judge(plan, ops.reveal(shared), real=int(mask.sum()))
        return replace(understood(plan, answer, self.part.front, text), privacy=plan.privacy)

    def _given(self, text: Text) -> tuple[Array | list[int], Array]:
        """Hidden states, or the rows to look up, and the mask. Raises InputError for a text that does not
        fit."""
        if self._table is None:
            return embed(self.part.front, text, self.plan.tokens)
        return rows_of(self.part.front, text, self.plan.tokens)

    def entered(self, ops: SharedTensors, given: Array | list[int]) -> Share:
        """This party's share of what the model starts from."""
        if isinstance(given, list):
            assert self._table is not None  # or there would be no rows to look up
            return ops.words(self._party.native.lookup(self._table, given), words_ring(self.plan))
        return ops.own(given)

    def _received_table(self) -> TableClient | None:
        """The hidden word table, if the plan hides it."""
        config = self.plan.config
        if self.plan.embedding is None:
            return None
        shape = (config.vocab, self.plan.word_size)
        return received_table(self.part.encrypted, shape, words_ring(self.plan))

    def set_up(self, watch: Watch) -> None:
        """Keys and correlations, once a session."""
        if not self._ready:
            watch("set-up")
            self._party.set_up(self.plan.correlations)
        self._ready = True

    def end(self) -> None:
        """Says goodbye, so that the server turns to the next client at once."""
        with talking("end"):
            self._party.send(handshake.END)


def rows_of(front: Embedder, text: Text, tokens: int) -> tuple[list[int], Array]:
    """Rows of the word table, padded with the first, and the mask. Raises InputError for a pair or too many
    tokens."""
    ids, types = tokenize(front, text)
    if any(types):
        raise InputError(
            "a pair of texts, and the server hides its embedding",
            hint="pass a single text; the server can publish it: tacita serve --public-embeddings",
        )
    if len(ids) > tokens:
        raise InputError(f"the text has {len(ids)} tokens, the server takes {tokens}", hint="shorten it")
    return padded_words(front, text, tokens)


@contextmanager
def talking(step: str) -> Iterator[None]:
    """The engine's errors as PeerError that names the step."""
    with engine.translated(PeerError, step):
        yield
