"""The server of two-party sessions: each client until it leaves, fails, or takes too long.

Sessions may run in threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tacita.blocks.sequence.past import Past
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.errors import (
    CheckpointError,
    GoneError,
    LateError,
    PeerError,
    RefusedError,
    TacitaError,
)
from tacita.planning.beginning import beginning
from tacita.planning.two_party import require_ordinary
from tacita.plans.two_party.plan import TwoPartyPlan, words_ring
from tacita.protocol import engine, handshake, text_wish
from tacita.protocol.handshake import CLASSIFY, WRITE
from tacita.protocol.party import Party
from tacita.protocol.text_wish import TextWish
from tacita.server.admission import Guest, anybody
from tacita.server.desk import Desk
from tacita.server.limits import GREETING_QUEUE, Limits, limits_of
from tacita.server.publication import Publication, Publisher
from tacita.tasks.task import NEXT
from tacita.two_party.residues import Share
from tacita.two_party.shares import Known, SharedTensors, Watch
from tacita.two_party.steps.writing import begun

BITS_PER_SECOND = 1e9


@dataclass(frozen=True)
class Served:
    """What a session came to: texts that were answered, and what ended it early, if anything."""

    texts: int
    problem: TacitaError | None

    @property
    def ending(self) -> str:
        """How it ended, in a word or two."""
        if self.problem is None:
            return "answered" if self.texts else "asked nothing"
        kinds = {RefusedError: "refused", LateError: "too late", GoneError: "broken off"}
        return kinds.get(type(self.problem), "damaged")


class TwoPartyServer:
    """A model ready to serve. Raises CheckpointError when plan and checkpoint do not belong together,
    PlanError for a plan that needs what sessions lack.

    limits: default those of a link of 1 Gbit/s. most: texts of a hidden table's key, None for any number.
    """

    def __init__(
        self,
        plan: TwoPartyPlan,
        checkpoint: Checkpoint,
        limits: Limits | None = None,
        most: int | None = None,
    ) -> None:
        require_ordinary(checkpoint.config)
        if plan.config != checkpoint.config:
            raise CheckpointError("serve: the plan is of another model", hint="make it again")
        self.plan = plan
        self.limits = limits or limits_of(plan, bits_per_second=BITS_PER_SECOND)
        self._weights = Weights(checkpoint.tensors)
        self._desk = Desk(plan, self._weights, _begun(plan, checkpoint)) if plan.task == NEXT else None
        self._publisher = Publisher(plan, checkpoint, most)

    @property
    def public_bytes(self) -> int:
        """Size of what every new client is sent once."""
        return len(self._publisher.current().data)

    def session(
        self,
        party: Party,
        watch: Watch = lambda stage: None,
        done: Callable[[int], None] = lambda texts: None,
        guest: Guest | None = None,
    ) -> Served:
        """Serves one connected client to its end. Never raises because of the client: see `Served.problem`.

        watch: called as each step of a text begins. done: called after each text with how many there were.
        guest: the client's entry in the book of sessions; its place is not given back here.
        """
        guest, texts = guest or anybody(), 0
        try:
            with engine.translated(PeerError, "session"):
                publication = self._agreed(party, guest)
                while answer := self._permitted(party, guest, publication):
                    if not texts:
                        watch("set-up")
                        party.set_up(self.plan.correlations)
                    answer(watch)
                    texts += 1
                    done(texts)
        except TacitaError as error:
            return Served(texts, error)
        return Served(texts, None)

    def _agreed(self, party: Party, guest: Guest) -> Publication:
        """Greets the client, which has as long as its connection was given, and longer only to fetch the
        public part.
        """
        party.hold(GREETING_QUEUE)
        renewing = self._publisher.renewing
        publication = self._publisher.current()
        if renewing:  # which was our time, not the client's
            party.limit(self.limits.greeting)
        data, seconds = publication.data, self.limits.part(len(publication.data))
        handshake.welcome(
            party, data, self.plan.hash, refuse=guest.refusal, loading=lambda: party.limit(seconds)
        )
        return publication

    def _permitted(
        self, party: Party, guest: Guest, publication: Publication
    ) -> Callable[[Watch], None] | None:
        """How the client's next wish is answered; None where it has none. Raises RefusedError."""
        party.limit(self.limits.idle)
        if not handshake.asked(party, CLASSIFY if self._desk is None else WRITE):
            return None
        wish = text_wish.received(party, self.plan) if self._desk else None
        refusal = self._desk.refusal(wish) if self._desk and wish else None
        handshake.answer(party, refusal or guest.admit() or self._publisher.take(publication))
        party.limit(self.limits.text)
        party.hold(self.limits.queue)
        return (
            partial(self._write, party, publication, wish)
            if wish
            else partial(self._classify, party, publication)
        )

    def _write(self, party: Party, publication: Publication, wish: TextWish, watch: Watch) -> None:
        """A text, token by token."""
        assert self._desk is not None  # or there would be no such wish
        self._desk.serve(
            party, wish, lambda ops, rows: self._entered(ops, party, publication, rows), self.limits, watch
        )

    def _classify(self, party: Party, publication: Publication, watch: Watch) -> None:
        """One text: this party's shares of the input are zero, its shares of the answer go to the client."""
        plan = self.plan
        known = Known(plan.formats, plan.bounds, plan.tokens, weights=self._weights)
        ops = SharedTensors(party.native, known, watch)
        ops.give(plan.run(ops, self._entered(ops, party, publication, plan.tokens)))

    def _entered(self, ops: SharedTensors, party: Party, publication: Publication, rows: int) -> Share:
        """This party's share of what so many rows of the model start from."""
        plan = self.plan
        if publication.table is None:
            return ops.theirs((rows, plan.config.hidden))
        return ops.words(party.native.lookup_served(publication.table, rows), words_ring(plan))


def _begun(plan: TwoPartyPlan, checkpoint: Checkpoint) -> Past[Share]:
    """This party's share of the plan's public beginning, which it computes in floats."""
    if not plan.begin:
        return Past()
    return begun(plan, beginning(checkpoint, plan.begin).nodes, own=True)
