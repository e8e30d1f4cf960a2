"""A text that two parties write, token by token; keys and values of what was read stay at both, as shares.

    client                                          server
    writer.read(prompt's shares, mask)              writer.read(zeros)            32 tokens at once
    writer.learn(writer.choose(logits))  <-- ---    writer.tell(writer.choose(logits))
    writer.read(shares of that token)               writer.read(zeros)            one token
    ...

Both make the same calls in the same order. The server learns how many tokens were read and written; the
client the tokens, not their logits: which one is the largest is computed on shares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacita.blocks.sequence.past import Past
from tacita.blocks.weights import Weights
from tacita.errors import PeerError, PlanError
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.tasks.task import NEXT
from tacita.two_party.base import Array
from tacita.two_party.count import Cost, CountTensors
from tacita.two_party.kept import KeptProducts
from tacita.two_party.prepared import PreparedMaps
from tacita.two_party.residues import Share
from tacita.two_party.shares import Known, SharedTensors, Watch

AT_ONCE = 32  # tokens whose products with weights are prepared together


class Writer:
    """One party's side of one text. party: the engine's `TwoParty`, set up. weights: at the server alone.

    Raises PlanError for a model that does not say what comes next.
    """

    def __init__(
        self,
        party: Any,
        plan: TwoPartyPlan,
        weights: Weights | None = None,
        watch: Watch = lambda stage: None,
    ) -> None:
        if plan.task != NEXT:
            raise PlanError(f"a model for {plan.task!r} writes no text", hint="take a decoder: GPT-2, LLaMA")
        self._party, self._plan, self._weights, self._watch = party, plan, weights, watch
        self._prepared = PreparedMaps(party, plan.formats, weights)
        step = step_cost(plan)
        self._maps, self._kept = step.maps, KeptProducts(party, step.growing, plan.tokens)
        self._past, self._mask = Past[Share](), np.zeros(0)

    @property
    def rows(self) -> int:
        """Tokens that were read so far, padding included."""
        return self._past.rows

    def prepare(self, tokens: int) -> None:
        """What the products of so many tokens with weights, and with keys and values, need before the tokens
        are known: as long as one reading of so many."""
        self._watch("prepare")
        self._prepared.prepare(self._maps, tokens)
        self._kept.prepare(tokens)

    def read(self, enter: Callable[[SharedTensors], Share], tokens: int, mask: Array | None = None) -> Share:
        """Shares of the logits behind these tokens. enter: makes this party's share of what the layers start
        from, (tokens, hidden). mask: (tokens,), at the client alone.

        A single token takes rows that were prepared, and prepares more where none is left. Raises PlanError
        beyond the plan's number of tokens, PeerError.
        """
        if self.rows + tokens > self._plan.tokens:
            raise PlanError(
                f"{self.rows} tokens and {tokens} more, planned for {self._plan.tokens}",
                hint="a shorter prompt, fewer new tokens, or a plan with more --tokens",
            )
        if not self._prepared.left:
            self.prepare(min(AT_ONCE, self._plan.tokens - self.rows))
        seen = None if mask is None else np.append(self._mask, mask)
        known = Known(
            self._plan.formats, self._plan.bounds, self.rows + tokens, self._weights, seen, opens=False
        )
        ops = SharedTensors(self._party, known, self._watch, self._prepared, self._past, self._kept)
        logits = self._plan.run(ops, enter(ops))
        self._past = ops.past
        self._mask = self._mask if seen is None else seen
        return logits

    def choose(self, logits: Share) -> Share:
        """Shares of the number of the likeliest token; of several the first. Logits are told apart from 2^-10
        on."""
        self._watch("choose")
        known = Known(self._plan.formats, self._plan.bounds, self.rows)
        return SharedTensors(self._party, known).largest(logits, self._plan.answer)

    def tell(self, chosen: Share) -> None:
        """The server's: the client learns the token."""
        self._party.reveal(chosen.values)

    def learn(self, chosen: Share) -> int:
        """The client's: the token. Raises PeerError for one that is not in the vocabulary."""
        token = int(self._party.receive_revealed(chosen.values, chosen.ring)[0])
        if token >= self._plan.config.vocab:
            raise PeerError(
                f"token {token} of a vocabulary of {self._plan.config.vocab}", hint="the server is not honest"
            )
        return token


def step_cost(plan: TwoPartyPlan) -> Cost:
    """Of the last token that the plan allows, by itself."""
    ops = CountTensors(plan.formats, plan.bounds, plan.tokens, past=plan.tokens - 1)
    x = ops.words(1, plan.word_size, _words(plan)) if plan.embedding else (1, plan.hidden)
    plan.run(ops, x)
    return ops.cost


def _words(plan: TwoPartyPlan) -> int:
    assert plan.embedding is not None
    return plan.formats.table_ring(plan.embedding)
