"""A text that the server's model writes behind a prompt that the server does not see: the client learns the
tokens and not their logits, the server how many there are.

    with dial("host", 7007, fingerprint=...) as party:
        dictation = Dictation(TwoPartyClient(party, cache), most=20)
        token = dictation.first(prompt)          # ids of the tokenizer
        token = dictation.next(token)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tacita.blocks.sequence.past import Past
from tacita.client.two_party import TwoPartyClient, talking
from tacita.errors import GoneError, InputError, LateError, RefusedError
from tacita.front.embed import embedded, pad_hidden
from tacita.models.registry import attentions
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.protocol import handshake
from tacita.protocol.refusal import Reason
from tacita.protocol.text_wish import KEY_BYTES, MOST_TEMPERATURE, NO_KEY, TextWish, say
from tacita.two_party.base import Array
from tacita.two_party.residues import Share
from tacita.two_party.shares import Watch
from tacita.two_party.steps.likeliest import settled
from tacita.two_party.steps.writing import Writer, begun

ROUND = 16  # a prompt is padded to a multiple of so many tokens, which the server learns


class Dictation:
    """One text: a `generation.source.Source`. most: tokens at most. temperature: 0 for the likeliest token;
    above, tokens by chance, which the server draws, told apart by thousandths. top_k: of so many likeliest
    alone, which the server learns; 0 for all. again: connects anew, for a text whose connection breaks
    between two tokens or in one, or whose server has changed its key; None to give it up then.

    Raises InputError for a temperature above 8, or a top_k below 0. Every other method raises PeerError.
    """

    near = ()  # neither party sees logits
    sound = True  # neither party sees a ring that is left: the plan's intervals are relied on

    def __init__(
        self,
        client: TwoPartyClient,
        most: int,
        temperature: float = 0.0,
        top_k: int = 0,
        again: Callable[[], TwoPartyClient] | None = None,
        watch: Watch = lambda stage: None,
    ) -> None:
        if not 0.0 <= temperature <= MOST_TEMPERATURE or top_k < 0:
            raise InputError(
                f"generate: temperature {temperature}, top_k {top_k}",
                hint=f"between two parties a temperature from 0 to {MOST_TEMPERATURE}, top_k from 0",
            )
        self._client, self._left, self._again, self._watch = client, most, again, watch
        self._chance, self._key = settled(round(temperature, 3), top_k, client.plan.vocab), NO_KEY
        self._writer: Writer | None = None
        self._past, self._mask = _begun(client.plan), np.ones(len(client.plan.begin))
        self._told = len(client.plan.begin)

    def first(self, prompt: Sequence[int]) -> int:
        """The token behind a prompt, which is padded on its left: the server learns its length to 16 tokens.
        Raises InputError for one that does not fit."""
        slots = padded_slots(self._client.plan, len(prompt), self._left)
        return self._safely(self._entering(list(prompt), slots), slots)

    def next(self, token: int) -> int:
        """The token behind the one that it gave last."""
        return self._safely(self._entering([token], 1), 1)

    def end(self) -> None:
        """No more tokens: the server turns to what the client asks next."""
        if self._left and self._writer:
            with talking("generation"):
                say(self._client.party, more=False)
        self._left = 0

    def _entering(self, ids: list[int], slots: int) -> Array | list[int]:
        """Hidden states, or the rows of a table to look up."""
        padding, told = slots - len(ids), self._told
        self._mask = np.concatenate([self._mask, np.zeros(padding), np.ones(len(ids))])
        self._told += len(ids)
        if self._client.plan.embedding is not None:
            return [ids[0]] * padding + ids
        front = self._client.part.front
        return pad_hidden(embedded(front, ids, [0] * len(ids), told), slots, left=True)[0]

    def _safely(self, given: Array | list[int], rows: int) -> int:
        """One token; where the connection breaks, or others have used up the key of the server's table, once
        more over a new one."""
        try:
            return self._token(given, rows)
        except (GoneError, LateError, RefusedError) as error:
            final = isinstance(error, RefusedError) and error.reason != Reason.KEY
            if self._again is None or final:
                raise
        self._client, self._writer = self._again(), None
        return self._token(given, rows)

    def _token(self, given: Array | list[int], rows: int) -> int:
        entered = self._client.entered
        with talking("generation"):
            writer = self._writer or self._opened(rows)
            say(self._client.party, more=True)
            found = writer.read(lambda ops: entered(ops, given), rows, self._mask, ahead=self._left)
            token = writer.learn(writer.choose(found, *self._chance))
        self._past, self._left = writer.past, self._left - 1
        return token

    def _opened(self, rows: int) -> Writer:
        """Makes the wish: a new text's, unless a token of this one is known here."""
        party, plan = self._client.party, self._client.plan
        written = self._past.rows > len(plan.begin)
        held, key = (self._past.rows, self._key) if written else (0, NO_KEY)
        wish = TextWish(rows, self._left, *self._chance, held, key)
        handshake.ask(party, handshake.WRITE, wish.to_bytes())
        self._client.set_up(self._watch)
        self._key = party.receive(KEY_BYTES)
        self._writer = Writer(party.native, plan, watch=self._watch, past=self._past)
        return self._writer


def padded_slots(plan: TwoPartyPlan, count: int, most: int) -> int:
    """Tokens to which a prompt of so many is padded, with so many to be written behind it: a multiple of 16
    where there is room. A public beginning stands right before the prompt, so where positions are turned
    nothing is padded. Raises InputError where they do not fit."""
    room = plan.tokens - most + 1
    if count > room:
        raise InputError(
            f"a prompt of {count} tokens and {most} behind it, the server takes {plan.tokens}",
            hint="shorten the prompt, or ask for fewer tokens",
        )
    turned = any(found.rotary for found in attentions(plan.config).values())
    return count if plan.begin and turned else min(room, -(-count // ROUND) * ROUND)


def _begun(plan: TwoPartyPlan) -> Past[Share]:
    """The client's share of the public beginning."""
    if not plan.begin:
        return Past()
    shapes = {
        name: tuple(
            np.zeros((found.key_heads, len(plan.begin), part.outputs // found.key_heads))
            for part in (found.key, found.value)
        )
        for name, found in attentions(plan.config).items()
    }
    return begun(plan, {name: (keys, values) for name, (keys, values) in shapes.items()}, own=False)
