"""The client of a two-party session: makes the handshake, receives the public part, and runs its program with
the server on texts of its own. It knows nothing of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tacita.errors import GoneError, InputError, LateError, PeerError, RefusedError
from tacita.plans import engine
from tacita.plans.answers import Answer, judge, understood
from tacita.plans.commitment import LinkSpeed, nearest_link
from tacita.texts.embed import Text, embed, embedded, pad_hidden, padded_words, tokenize
from tacita.texts.embedding import Embedder
from tacita.texts.generation import TextOptions, Token, ends_of, generated, ids_of, speller
from tacita.texts.task import NEXT, require_kind
from tacita.two_party.arithmetic.base import Array
from tacita.two_party.arithmetic.residues import Words, from_floats
from tacita.two_party.arithmetic.text_steps import none_of, settled
from tacita.two_party.program.program import Program
from tacita.two_party.program.run import Ahead, Run, Watch, empty_past, reveal
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.handshake import KEY_BYTES, MOST_TEMPERATURE, NO_KEY, GenerateRequest, say
from tacita.two_party.protocol.party import Party, receive_table
from tacita.two_party.protocol.public_part import PublicPart
from tacita.two_party.protocol.refusal import Reason
from tacita.two_party.writing import Writer


class TwoPartyClient:
    """One session. party: its connection, which is closed by whoever made it.

    part: what the server published; plan: its program. Every method raises PeerError when the server is gone,
    late or breaks the protocol.
    """

    def __init__(
        self, party: Party, cache: handshake.Cache, loaded: handshake.Loaded = lambda done, total: None
    ) -> None:
        self.party = party
        with engine.translated(PeerError, "greeting"):
            self.part, self.round_trip = handshake.run_client(party, cache, loaded)
        self.plan = self.part.plan
        self.entry: Entry = HiddenTable(self.part) if self.plan.hides else PublishedTables(self.part)
        self._ready = False
        self.ahead = Ahead(party.native, self.plan)

    def classify(self, text: Text, watch: Watch = lambda stage: None) -> Answer:
        """Runs the server's model on a text that it does not see. For a decoder see `GenerationClient`.

        Raises InputError before anything is sent, RefusedError.
        """
        plan = self.plan
        if plan.task == NEXT:
            raise InputError("classify: the model writes texts", hint="tacita.generate(model=client)")
        inputs, mask = self.entry.read(text)
        with engine.translated(PeerError, "classification"):
            handshake.ask(self.party)
            self.set_up(watch)
            run = Run(self.party.native, plan, mask, watch=watch, prepared=self.ahead.take())
            share = run.answer(self.entry.share(self.party, inputs))
            values = reveal(self.party.native, share, plan.answered)
            answer = judge_nearest(plan, values, real=int(mask.sum()))
        return replace(understood(plan, answer, self.part.front, text), privacy=plan.privacy)

    def adapt(self, link: LinkSpeed | None = None) -> None:
        """Chooses windows of products and look-ups of comparisons for a link, at both parties: fewer bytes on
        a slow one, fewer rounds on a long one, less work on a fast one. link: None for the named one that is
        nearest to the least of a few round trips. Without a call they are those of 100 Mbit/s and 10 ms."""
        with engine.translated(PeerError, "link"):
            if link is None:
                self.round_trip = handshake.least_round_trip(self.party, self.round_trip)
            speed = handshake.send_speed(self.party, link or nearest_link(self.round_trip))
            self.party.native.set_link(speed)

    def prepare(self, texts: int = 1, watch: Watch = lambda stage: None) -> int:
        """Prepares the products with weights of texts to come until so many have theirs, and returns how many
        have: fewer where the server prepares fewer. What is sent depends on no text. Each of the next texts
        takes what was prepared for one. Cost: `PreparedCost`. Raises RefusedError."""
        while self.ahead.texts < texts and self.prepare_map(watch):
            pass
        return self.ahead.texts

    def prepare_map(self, watch: Watch = lambda stage: None) -> bool:
        """Prepares the next linear map of a text to come, so that a caller may stop in the middle of a text.
        Returns False where the server has prepared enough. Raises RefusedError."""
        with engine.translated(PeerError, "preparation"):
            try:
                handshake.ask(self.party, handshake.PREPARE)
            except RefusedError as error:
                if error.reason == Reason.PREPARED:
                    return False
                raise
            self.set_up(watch)
            watch("prepare")
            self.ahead.prepare()
        return True

    def set_up(self, watch: Watch) -> None:
        """Exchanges keys and correlations, once a session."""
        if not self._ready:
            watch("set-up")
            self.party.set_up(self.plan.correlations)
        self._ready = True

    def end(self) -> None:
        """Says goodbye, so that the server turns to the next client at once."""
        with engine.translated(PeerError, "end"):
            self.party.send(handshake.END)


class Entry(Protocol):
    """Makes this party's share of what the model starts from, of inputs of its own."""

    def read(self, text: Text) -> tuple[Any, Array]:
        """Returns inputs and the mask. Raises InputError for a text that does not fit."""

    def of_ids(self, ids: list[int], padding: int, position: int) -> Any:
        """Returns inputs of ids from this position on, so many of padding before them."""

    def share(self, party: Party, inputs: Any) -> Words:
        """Returns this party's share of them."""


class PublishedTables(Entry):
    """Embeds by the tables that the server publishes: the share is all of it."""

    def __init__(self, part: PublicPart) -> None:
        self._front, self._plan = part.front, part.plan

    def read(self, text: Text) -> tuple[Array, Array]:
        return embed(self._front, text, self._plan.tokens)

    def of_ids(self, ids: list[int], padding: int, position: int) -> Array:
        states = embedded(self._front, ids, [0] * len(ids), position)
        return pad_hidden(states, padding + len(ids), left=True)[0]

    def share(self, party: Party, inputs: Array) -> Words:
        return from_floats(inputs, self._plan.entered.fraction, self._plan.entered.ring).values


class HiddenTable(Entry):
    """Looks rows up in a table that the server alone knows."""

    def __init__(self, part: PublicPart) -> None:
        plan, self._front, self._tokens = part.plan, part.front, part.plan.tokens
        self._table = receive_table(part.encrypted, (plan.vocab, plan.hidden), plan.entered.ring)

    def read(self, text: Text) -> tuple[list[int], Array]:
        ids, types = tokenize(self._front, text)
        if any(types):
            raise InputError(
                "a pair of texts, and the server hides its embedding",
                hint="pass a single text; the server can publish it: [two_party] hidden_embeddings = false",
            )
        if (count := len(ids)) > (most := self._tokens):
            raise InputError(f"the text has {count} tokens, the server takes {most}", hint="shorten it")
        return padded_words(self._front, text, self._tokens)

    def of_ids(self, ids: list[int], padding: int, position: int) -> list[int]:
        return [ids[0]] * padding + ids

    def share(self, party: Party, inputs: list[int]) -> Words:
        return party.native.lookup(self._table, inputs)


def judge_nearest(plan: Program, values: Array, *, sound: bool = True, real: int | None = None) -> Answer:
    """Judges an answer (rows, outputs) as `judge` does; of a search that tells the nearest documents alone,
    by the scores and labels of these. Documents that equal the last of them count as well."""
    if plan.nearest:
        scores, none = np.ravel(values), np.ldexp(none_of(plan.answered.ring), -plan.answered.fraction)
        near = (scores >= np.sort(scores)[-plan.nearest]) & (scores > none)
        if near.any():  # of a peer that keeps none nothing is believed
            labels = tuple(plan.labels[number] for number in np.flatnonzero(near))
            plan, values = replace(plan, labels=labels), scores[near]
    return judge(plan, values, sound=sound, real=real)


# A text that the server's model writes behind a prompt that the server does not see: the client learns the
# tokens and not their logits, the server how many there are.
#
#     with dial("host", 7007, fingerprint=...) as party:
#         generation = GenerationClient(TwoPartyClient(party, cache), most=20)
#         token = generation.next(prompt)          # ids of the tokenizer
#         token = generation.next([token])

TRIES = 3  # connections for one token
ROUND = 16  # a prompt is padded to a multiple of so many tokens, which the server learns


class GenerationClient:
    """One text that the server's model writes: a `texts.generation.Source`. most: tokens at most.
    temperature: 0 for the likeliest token; above, tokens by chance, which the server draws, told apart by
    thousandths. top_k: of so many likeliest alone, which the server learns; 0 for all. again: connects anew,
    for a text whose connection breaks between two tokens or in one, or whose server has changed its key; None
    to give it up then.

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
        self._position = begun = len(client.plan.begin)
        self._past, self._mask = empty_past(client.plan, begun), np.ones(begun)

    def next(self, tokens: Sequence[int]) -> int:
        """Returns the token behind a prompt, which is padded on its left: the server learns its length to 16
        tokens; then behind the one that it returned last. Raises InputError for a prompt that does not
        fit."""
        slots = 1 if self._written else padded_slots(self._client.plan, len(tokens), self._left)
        return self._safely(self._next_input(list(tokens), slots), slots)

    @property
    def _written(self) -> bool:
        """Whether a token of this text is known here."""
        return self._past.rows > len(self._client.plan.begin)

    def end(self) -> None:
        """Ends the text: the server turns to what the client asks next."""
        if self._left and self._writer:
            with engine.translated(PeerError, "generation"):
                say(self._client.party, more=False)
        self._left = 0

    def _next_input(self, ids: list[int], slots: int) -> Any:
        """Returns inputs as the client's entry has them."""
        padding, position = slots - len(ids), self._position
        self._mask = np.concatenate([self._mask, np.zeros(padding), np.ones(len(ids))])
        self._position += len(ids)
        return self._client.entry.of_ids(ids, padding, position)

    def _safely(self, inputs: Any, rows: int, tries: int = TRIES) -> int:
        """Returns one token; where the connection breaks, or others have used up the key of the server's
        table, it tries again over a new one."""
        try:
            if self._again and tries < TRIES:
                self._client, self._writer = self._again(), None
            return self._token(inputs, rows)
        except (GoneError, LateError, RefusedError) as error:
            final = isinstance(error, RefusedError) and error.reason != Reason.KEY
            if self._again is None or final or tries == 1:
                raise
        return self._safely(inputs, rows, tries - 1)

    def _token(self, inputs: Any, rows: int) -> int:
        client = self._client
        with engine.translated(PeerError, "generation"):
            writer = self._writer or self._request_text(rows)
            say(self._client.party, more=True)
            logits = writer.read(
                lambda: client.entry.share(client.party, inputs), rows, self._mask, ahead=self._left
            )
            token = writer.learn(writer.choose(logits, *self._chance))
        self._past, self._left = writer.past, self._left - 1
        return token

    def _request_text(self, rows: int) -> Writer:
        """Sends the request: for a new text, unless a token of this one is known here."""
        party, plan = self._client.party, self._client.plan
        held, key = (self._past.rows, self._key) if self._written else (0, NO_KEY)
        request = GenerateRequest(rows, self._left, *self._chance, held, key)
        handshake.ask(party, handshake.WRITE, request.to_bytes())
        self._client.set_up(self._watch)
        self._key = party.receive(KEY_BYTES)
        prepared = self._client.ahead.take()
        self._writer = Writer(party.native, plan, watch=self._watch, past=self._past, prepared=prepared)
        return self._writer


def padded_slots(plan: Program, count: int, most: int) -> int:
    """Returns to how many tokens a prompt of `count` is padded, with `most` to be written behind it: a
    multiple of 16 where there is room. A public beginning stands right before the prompt, so where positions
    are turned nothing is padded. Raises InputError where they do not fit."""
    room = plan.tokens - most + 1
    if count > room:
        raise InputError(
            f"a prompt of {count} tokens and {most} behind it, the server takes {plan.tokens}",
            hint="shorten the prompt, or ask for fewer tokens",
        )
    turned = any(step.op == "turn" for step in plan.steps)
    return count if plan.begin and turned else min(room, -(-count // ROUND) * ROUND)


def most_slots(plan: Program, front: Embedder, prompts: Sequence[str], most: int) -> int:
    """Returns to how many tokens the longest of several prompts is padded, with `most` to be written behind
    each. Raises InputError for none, and one that does not fit."""
    if not prompts:
        raise InputError("generate: no prompts", hint="at least one")
    counts = [len(ids_of(front, prompt, begun=bool(plan.begin))) for prompt in prompts]
    return max(padded_slots(plan, count, most) for count in counts)


def connected(
    client: TwoPartyClient,
    prompt: str,
    options: TextOptions,
    again: Callable[[], TwoPartyClient] | None = None,
    watch: Watch = lambda stage: None,
) -> Iterator[Token]:
    """Yields tokens as they come, for `tacita.generate(prompt, model=client)`. again: connects anew where the
    connection breaks. watch: called as each step begins.

    Raises InputError before anything is sent, PeerError, RefusedError.
    """
    plan, front = client.plan, client.part.front
    require_kind("generate", plan)
    if options.choice.seed is not None:
        raise InputError("generate: a seed with a server", hint="the server draws the token")
    ids, spell = ids_of(front, prompt, begun=bool(plan.begin)), speller(front)
    padded_slots(plan, len(ids), options.max_tokens)  # or it is refused
    choice = options.choice
    source = GenerationClient(client, options.max_tokens, choice.temperature, choice.top_k, again, watch)
    return _until_left(source, generated(source, ids, spell, ends_of(plan, options)))


def _until_left(source: GenerationClient, tokens: Iterator[Token]) -> Iterator[Token]:
    """Yields the same tokens. A reader that leaves after one of them ends the text at the server, too."""
    try:
        yield from tokens
    except GeneratorExit:
        _end(source)
        raise
    _end(source)


def _end(source: GenerationClient) -> None:
    with suppress(PeerError):  # the text is here; a server that is gone by now changes nothing
        source.end()
