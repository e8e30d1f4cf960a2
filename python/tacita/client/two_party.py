"""The client of a two-party session: greets, receives the public part, classifies texts with the server. Needs no model folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tacita.backends.two_party.base import Array
from tacita.backends.two_party.shares import SharedTensors, Watch
from tacita.checkpoint import embed
from tacita.checkpoint.embed import Text
from tacita.errors import InputError, PeerError
from tacita.models import two_party
from tacita.plan.two_party import TwoPartyPlan
from tacita.protocol import engine, handshake
from tacita.protocol.party import Party
from tacita.protocol.public_part import PublicPart


@dataclass(frozen=True)
class TwoPartyAnswer:
    """label: None for a model without classifier. logits: rounded to the plan's decimals. warnings: reasons not to trust it."""

    label: str | None
    logits: tuple[float, ...]
    warnings: tuple[str, ...]


class TwoPartyClient:
    """One session. The party is closed by whoever made it.

    part: what the server published. Every method raises PeerError when the server is gone, late or breaks the protocol.
    """

    def __init__(
        self, party: Party, cache: handshake.Cache, loaded: handshake.Loaded = lambda done, total: None
    ) -> None:
        self._party = party
        with talking("greeting"):
            self.part: PublicPart = handshake.greet(party, cache, loaded)
        require_published(self.plan)
        self._model = self.plan.model()
        self._ready = False

    @property
    def plan(self) -> TwoPartyPlan:
        """The agreed plan."""
        return self.part.plan

    def classify(self, text: Text, watch: Watch = lambda stage: None) -> TwoPartyAnswer:
        """The server's model on a text that it does not see. Raises InputError before anything is sent."""
        hidden, mask = embed(self.part.front, text, self.plan.tokens)
        with talking("classification"):
            self._party.send(handshake.CLASSIFY)
            self._set_up(watch)
            ops = SharedTensors(self._party.native, self.plan.formats, self.plan.tokens, mask=mask, watch=watch)
            shared = two_party.run(ops, self._model, ops.own(hidden))
            return judge(self.plan, ops.reveal(shared)[0])

    def _set_up(self, watch: Watch) -> None:
        """Keys and correlations, once a session."""
        if not self._ready:
            watch("set-up")
            self._party.set_up()
        self._ready = True

    def end(self) -> None:
        """Says goodbye, so that the server turns to the next client at once."""
        with talking("end"):
            self._party.send(handshake.END)


def judge(plan: TwoPartyPlan, values: Array) -> TwoPartyAnswer:
    """Rounds the answer, and doubts one that lies outside what calibration says is possible."""
    size = float(np.max(np.abs(values)))
    doubt = f"an answer of magnitude {size:.1f}, calibrated up to {plan.answer:.1f}: do not trust it"
    logits = tuple(round(float(v), plan.decimals) + 0.0 for v in values)
    label = plan.config.labels[int(np.argmax(values))] if plan.config.labels else None
    return TwoPartyAnswer(label, logits, (doubt,) if size > plan.answer else ())


def require_published(plan: TwoPartyPlan) -> None:
    """Raises InputError for a server that hides its embedding, which this release cannot ask."""
    if plan.embeddings != "published":
        raise InputError(
            "the server hides its embedding tables, which this release does not support",
            hint="the server must run with --public-embeddings",
        )


@contextmanager
def talking(step: str) -> Iterator[None]:
    """The engine's errors as PeerError that names the step."""
    with engine.translated(PeerError, step):
        yield
