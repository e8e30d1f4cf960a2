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
from secrets import token_bytes
from typing import Any

import numpy as np

from tacita.errors import PeerError, PlanError
from tacita.two_party.arithmetic.base import CHOICE_FRACTION, Array, choice_ring
from tacita.two_party.arithmetic.masked import AT_ONCE
from tacita.two_party.arithmetic.residues import Share, Words, from_floats
from tacita.two_party.arithmetic.text_steps import MOST_NOISE, NOISE_SPREAD, keep_likeliest, largest, settled
from tacita.two_party.program.program import Program
from tacita.two_party.program.run import Model, Past, Prepared, Run, Watch


class Writer:
    """One party's side of one text. party: the engine's `TwoParty`, set up. model: at the server alone.

    past: what both had read of the text when their connection broke. prepared: of this session; rows of
    another are gone with it, so no mask is used twice.
    """

    def __init__(
        self,
        party: Any,
        program: Program,
        model: Model | None = None,
        watch: Watch = lambda stage: None,
        past: Past | None = None,
        prepared: Prepared | None = None,
    ) -> None:
        self._party, self._program, self._model, self._watch = party, program, model, watch
        self._prepared = prepared or Prepared()
        self.past = past or Past()

    def prepare(self, tokens: int) -> None:
        """Prepares what the products of so many tokens need, before the tokens are known: takes as long as
        one reading of so many."""
        self._watch("prepare")
        self._prepared.prepare(self._party, self._program, self._model, self.past, tokens)

    def read(
        self,
        enter: Callable[[], Words],
        tokens: int,
        mask: Array | None = None,
        *,
        ahead: int = AT_ONCE,
    ) -> Share:
        """Returns shares of the logits behind these tokens. enter: makes this party's share of what the
        layers start from, (tokens, hidden). mask: of all tokens so far, those of the past first, at the
        client alone. ahead: tokens that may still come, this one included; as many are prepared for when none
        is left, up to 32.

        A single token takes rows that were prepared. Raises PlanError beyond the plan's number of tokens,
        PeerError.
        """
        program = self._program
        if self.past.rows + tokens > program.room:
            raise PlanError(
                f"{self.past.rows} tokens and {tokens} more, planned for {program.room}",
                hint="a shorter prompt, fewer new tokens, or a plan with more --tokens",
            )
        if tokens == 1 and not self._prepared.left:
            self.prepare(max(1, min(AT_ONCE, ahead)))
        knows = mask, self._model
        run = Run(self._party, program, *knows, watch=self._watch, prepared=self._prepared, past=self.past)
        logits = run.answer(enter())
        self.past = run.past
        return Share(logits, program.answered.ring, program.answered.fraction)

    def choose(self, logits: Share, temperature: float = 0.0, top_k: int = 0) -> Share:
        """Returns shares (1,) of the number of the likeliest token; of several the first. logits: (1, vocab),
        told apart from 2^-10 on. temperature: above 0, of a token by chance, weighted by exp(logit /
        temperature): the server adds Gumbel's numbers to its share, and the largest sum is such a token.
        top_k: of so many likeliest alone, and of those that equal the last of them; 0 for all.

        Cost: `two_party.plan.generation_cost`, whatever the logits are. Raises PeerError.
        """
        self._watch("choose")
        temperature, top_k = settled(temperature, top_k, logits.values.shape[-1])
        bound = self._program.bound + temperature * NOISE_SPREAD
        if top_k:
            logits = self._of_likeliest(logits, top_k, bound, temperature * NOISE_SPREAD)
        if temperature and self._model is not None:
            logits = _noisy(logits, temperature)
        return largest(self._party, logits, bound)

    def _of_likeliest(self, logits: Share, k: int, bound: float, fall: float) -> Share:
        """Moves all but the k likeliest so far down that no chance brings them back. bound: half of the
        distance that numbers may have then, chance included."""
        coarse = logits.scaled(CHOICE_FRACTION, client=bool(self._party.is_client))
        return keep_likeliest(self._party, coarse.reduced(choice_ring(bound)), k, self._program.bound, fall)

    def tell(self, chosen: Share) -> None:
        """Reveals the token to the client; called at the server."""
        self._party.reveal(chosen.values)

    def learn(self, chosen: Share) -> int:
        """Returns the token; called at the client. Raises PeerError for one that is not in the vocabulary."""
        token = int(self._party.receive_revealed(chosen.values, chosen.ring)[0])
        if token >= self._program.vocab:
            raise PeerError(
                f"token {token} of a vocabulary of {self._program.vocab}", hint="the server is not honest"
            )
        return token


def _noisy(logits: Share, temperature: float) -> Share:
    """Adds Gumbel's numbers, -log(-log u) of uniform u from the operating system."""
    shape = logits.values.shape
    drawn = np.frombuffer(token_bytes(8 * logits.values.size), np.uint64) >> np.uint64(11)
    noise = -np.log(-np.log((drawn.reshape(shape) + 0.5) * 2.0**-53))
    return logits.plus(from_floats(temperature * np.minimum(noise, MOST_NOISE), logits.fraction, logits.ring))
