"""The server of two-party sessions: each client until it leaves, fails or falls silent. Sessions may run in threads of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacita.backends.two_party.integers import encode as integers
from tacita.backends.two_party.residues import Share
from tacita.backends.two_party.shares import SharedTensors, Watch
from tacita.checkpoint import Checkpoint
from tacita.errors import CheckpointError, PeerError, TacitaError
from tacita.models import two_party
from tacita.plan.hidden_embedding import WORDS
from tacita.plan.two_party import TwoPartyPlan, require_ordinary, words_ring
from tacita.protocol import engine, handshake
from tacita.protocol.party import Party, encrypt_table
from tacita.protocol.public_part import encode, public_part


@dataclass(frozen=True)
class Served:
    """What a session came to: texts that were classified, and what ended it early, if anything."""

    texts: int
    problem: TacitaError | None


class TwoPartyServer:
    """A model ready to serve. Raises CheckpointError when plan and checkpoint do not belong together."""

    def __init__(self, plan: TwoPartyPlan, checkpoint: Checkpoint) -> None:
        require_ordinary(checkpoint.config)
        if plan.config != checkpoint.config:
            raise CheckpointError("serve: the plan is of another model", hint="make it again")
        self.plan = plan
        self._model = plan.model(checkpoint)
        self._table = _encrypted(plan, checkpoint)
        self._public = encode(public_part(plan, checkpoint, self._table.message() if self._table else b""))

    @property
    def public_bytes(self) -> int:
        """Size of what every new client is sent once."""
        return len(self._public)

    def session(
        self, party: Party, watch: Watch = lambda stage: None, done: Callable[[int], None] = lambda texts: None
    ) -> Served:
        """Serves one connected client to its end. Never raises because of the client: see `Served.problem`.

        watch: called as each step of a text begins. done: called after each text with how many there were.
        """
        texts = 0
        try:
            with engine.translated(PeerError, "session"):
                handshake.welcome(party, self._public, self.plan.hash)
                ready = False
                while handshake.asked(party):
                    if not ready:
                        watch("set-up")
                        party.set_up(self.plan.correlations)
                    ready = True
                    self._classify(party, watch)
                    texts += 1
                    done(texts)
        except TacitaError as error:
            return Served(texts, error)
        return Served(texts, None)

    def _classify(self, party: Party, watch: Watch) -> None:
        """One text: this party's shares of the input are zero, its shares of the answer go to the client."""
        ops = SharedTensors(party.native, self.plan.formats, self.plan.tokens, mask=None, watch=watch)
        ops.give(two_party.run(ops, self._model, self._entered(ops, party)))

    def _entered(self, ops: SharedTensors, party: Party) -> Share:
        """This party's share of what the model starts from."""
        plan = self.plan
        if self._table is None:
            return ops.theirs((plan.tokens, plan.config.hidden))
        return ops.words(party.native.lookup_served(self._table, plan.tokens), words_ring(plan))


def _encrypted(plan: TwoPartyPlan, checkpoint: Checkpoint) -> Any:
    """The word table under a key of this server, if the plan hides it."""
    if plan.embedding is None:
        return None
    return encrypt_table(integers(checkpoint.tensors[WORDS], plan.formats.table), words_ring(plan))
