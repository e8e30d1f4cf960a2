"""What a text goes on with: a number for each word of the vocabulary, or the likeliest word alone.

>>> Next(None, (-1.5, 2.25, 2.25), ()).token
1
>>> choice((0.0, 1.0, 0.0), ())
Chosen('token 1 of 3', privacy='unknown')
>>> choice((0.0, 0.0, 0.0), ()).warnings
('outside the calibrated intervals: no word was chosen; do not trust the answer',)

Which token is taken of the logits of all of them.

>>> logits = np.array([0.5, 2.0, 2.0, -1.0])
>>> Choice().of(logits, np.random.default_rng())
1
>>> Choice().near(logits, 1, step=0.1)
(2,)
>>> Choice(temperature=0.7, top_k=2).of(logits, np.random.default_rng(0)) in (1, 2)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError, InputError, PlanError
from tacita.texts.answer import Answer, softmax
from tacita.texts.embed import embedded, tokenize
from tacita.texts.embedding import Embedder


@dataclass(frozen=True, repr=False)
class Next(Answer):
    """The logits of the next token, by its number."""

    @property
    def token(self) -> int:
        """The likeliest one; of several the first."""
        return int(self.vector.argmax())

    @property
    def wording(self) -> str:
        """The token's number: what it spells, the tokenizer says."""
        return f"token {self.token} of {len(self.logits)}"

    def fields(self) -> dict[str, Any]:
        """Adds the likeliest token."""
        return {**super().fields(), "token": self.token}


@dataclass(frozen=True, repr=False)
class Chosen(Next):
    """The token alone: in place of logits each word's share of the choice, 1 for the one that was chosen and
    0 for all others. Where several are nearer than the plan's gap they share."""

    @property
    def share(self) -> float:
        """Share of the token: 1 where no other word was near."""
        return float(self.vector.max())

    @property
    def wording(self) -> str:
        """The token's number, and whether others were as likely."""
        near = "" if self.share > SURE else ", others are as likely"
        return f"{super().wording}{near}"

    def fields(self) -> dict[str, Any]:
        """Replaces all shares by the token's own."""
        others = {name: value for name, value in super().fields().items() if name != "logits"}
        return {**others, "share": self.share}


SURE, LEAST, MOST = 0.9, 0.05, 1.5  # share of one word, and the sum of all shares that a choice can have


def choice(shares: tuple[float, ...], warnings: tuple[str, ...]) -> Chosen:
    """Builds an answer of the rounded shares of all words, distrusted where they are those of no choice at
    all, or of several."""
    trusted = LEAST <= sum(shares) <= MOST
    if not warnings and not trusted:
        what = "no word was" if sum(shares) < LEAST else "several words were"
        warnings = (f"outside the calibrated intervals: {what} chosen; do not trust the answer",)
    return Chosen(None, shares, warnings, trusted=trusted)


Array = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """How a token is chosen. temperature: the likeliest token at 0, of several the first; above, by chance,
    weighted by exp(logit / temperature). top_k: of so many likeliest ones alone; 0 for all. seed: of the
    chance, None for a fresh one.

    Raises InputError for numbers that mean nothing.
    """

    temperature: float = 0.0
    top_k: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < math.inf or min(self.top_k, self.seed or 0) < 0:
            raise InputError(
                f"generate: temperature {self.temperature:g}, top_k {self.top_k}, seed {self.seed}",
                hint="a temperature from 0, a seed from 0, and a number of tokens or 0 for all",
            )

    def of(self, logits: Array, chance: np.random.Generator) -> int:
        """The number of one token. logits: (vocab,), finite."""
        if self.temperature == 0.0:
            return int(logits.argmax())
        best = np.argsort(-logits, kind="stable")[: self.top_k or None]
        return int(chance.choice(best, p=softmax(logits[best] / self.temperature)))

    def near(self, logits: Array, chosen: int, step: float) -> tuple[int, ...]:
        """Returns other tokens that logits rounded to multiples of `step` do not tell from the chosen one: a
        step apart at most; none where tokens are drawn by chance."""
        if self.temperature != 0.0:
            return ()
        close = np.flatnonzero(np.abs(logits - logits[chosen]) < 1.5 * step)
        return tuple(int(token) for token in close if token != chosen)

    def require_likeliest(self) -> None:
        """Raises InputError for tokens by chance, where no logits are told."""
        if self != Choice(seed=self.seed):
            hint = "tokens by chance take --reveal logits"
            raise InputError("generate: a temperature or top_k without logits", hint=hint)


# The loop of generation: prompt -> token after token, with the text that each adds, until something ends it.
#
# Where tokens come from is a `Source`: the model in the clear (`clear`), or a protocol that gives its client
# the tokens and not their logits.

INCOMPLETE = "\ufffd"  # what the first bytes of a character decode to


Logits = tuple[Array, bool]  # (vocab,), and whether no value has left its range


class Source(Protocol):
    """A model that goes on behind the tokens that it was given."""

    def next(self, tokens: Sequence[int]) -> int:
        """The token behind further ones: a prompt at first, then the one that it gave last."""

    @property
    def sound(self) -> bool:
        """Whether no value has left the range that the arithmetic holds."""

    @property
    def near(self) -> Sequence[int]:
        """Tokens that the rounding of the logits did not tell from the one that it gave last."""


class Local:
    """A `Source` whose logits are known here. logits: of what comes behind further tokens of the text. step:
    to which they are rounded."""

    def __init__(self, logits: Callable[[Sequence[int]], Logits], choice: Choice, step: float = 0.0) -> None:
        self._logits, self._choice, self._step = logits, choice, step
        self._chance = np.random.default_rng(choice.seed)
        self.sound, self.near = True, tuple[int, ...]()

    def next(self, tokens: Sequence[int]) -> int:
        logits, sound = self._logits(tokens)
        self.sound = self.sound and sound
        chosen = self._choice.of(logits, self._chance)
        self.near = self._choice.near(logits, chosen, self._step)
        return chosen


@dataclass(frozen=True)
class Token:
    """A token of a text that is written. text: what it adds, empty while a character or a stop text is not
    complete. sound: see `Source`. near: what the tokens spell that might as well have come in its place
    (`Source.near`)."""

    id: int
    text: str
    sound: bool = True
    near: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ends:
    """What ends a text. most: tokens at most. ids: that end a text. texts: before which it ends, wherever
    they appear."""

    most: int
    ids: frozenset[int] = frozenset()
    texts: tuple[str, ...] = ()

    def cut(self, text: str) -> int | None:
        """Where the first of `texts` begins."""
        return min((at for stop in self.texts if (at := text.find(stop)) >= 0), default=None)

    def settled(self, text: str) -> int:
        """How many characters no later one can take back."""
        whole = text.rstrip(INCOMPLETE)
        return len(whole) - max((_overlap(whole, stop) for stop in self.texts), default=0)


class Writing:
    """A text that is written. decode: ids -> text. unread: ids that no source was given yet. ended: whether
    nothing is computed behind it."""

    def __init__(self, prompt: Sequence[int], decode: Callable[[Sequence[int]], str], ends: Ends) -> None:
        self._ids, self._decode, self._ends = list(prompt), decode, ends
        self._first, self._skipped, self._shown = len(self._ids), len(decode(prompt)), 0
        self.unread, self.ended = list(prompt), False

    def write(self, source: Source) -> Token:
        """Returns the next token. Together the texts of all are what comes before the first of
        `ends.texts`."""
        ids, ends, decode = self._ids, self._ends, self._decode
        ids.append(source.next(self.unread))
        self.unread = ids[-1:]
        text = decode(ids)[self._skipped :]
        cut, last = ends.cut(text), len(ids) - self._first == ends.most or ids[-1] in ends.ids
        upto = cut if cut is not None else len(text) if last else max(self._shown, ends.settled(text))
        near = tuple(decode([*ids[:-1], other])[len(decode(ids[:-1])) :] for other in source.near)
        token = Token(ids[-1], text[self._shown : upto], source.sound, near)
        self._shown, self.ended = max(self._shown, upto), last or cut is not None
        return token


def generated(
    source: Source, prompt: Sequence[int], decode: Callable[[Sequence[int]], str], ends: Ends
) -> Iterator[Token]:
    """Yields the tokens behind the prompt, the one that ends the text, too. decode: ids -> text."""
    yield from (token for _, token in side_by_side([(source, Writing(prompt, decode, ends))]))


def side_by_side(
    texts: Sequence[tuple[Source, Writing]],
    prepare: Callable[[Mapping[int, Sequence[int]]], None] = lambda _: None,
    *,
    unsound: bool = True,
) -> Iterator[tuple[int, Token]]:
    """Yields the number of a text and its token, for each text in turn, until all have ended. prepare: called
    before a turn with the unread ids of every text that goes on. unsound: of `Turns`."""
    turns = Turns(texts, unsound=unsound)
    while unread := turns.unread:
        prepare(unread)
        yield from turns.write()


class Turns:
    """Texts that are written side by side. unsound: whether a text goes on behind a token that is not
    sound."""

    def __init__(self, texts: Sequence[tuple[Source, Writing]], *, unsound: bool = True) -> None:
        self._going, self._unsound = dict(enumerate(texts)), unsound

    @property
    def unread(self) -> dict[int, Sequence[int]]:
        """The unread ids of every text that goes on, by its number; empty once all have ended."""
        return {number: text.unread for number, (_, text) in self._going.items()}

    def write(self) -> Iterator[tuple[int, Token]]:
        """Yields the number of each text that goes on and its next token."""
        for number, (source, text) in self._going.items():
            yield number, text.write(source)
        left = self._going.items()
        self._going = {n: one for n, one in left if not one[1].ended and (self._unsound or one[0].sound)}


class TokenRequests:
    """Requests of ciphertexts by which texts are written side by side. front: the client's part of the model,
    its tables of words and positions. batch: texts of a request at most. kept: whether every text keeps its
    place, as the rows have that a server keeps."""

    def __init__(self, front: Embedder, batch: int = 1, *, kept: bool = False) -> None:
        self._front, self._batch, self._kept = front, batch, kept
        self._ids, self._answers = dict[int, list[int]](), dict[int, Answer]()

    def of(self, unread: Mapping[int, Sequence[int]]) -> Iterator[tuple[Sequence[int], list[Array]]]:
        """Yields the numbers and the hidden states of the texts of each request, as few as hold what comes
        behind further tokens of texts by number. A text that is not named is not asked about; the server
        does not learn how many of a request's places are taken."""
        for number, ids in unread.items():
            self._ids.setdefault(number, []).extend(ids)
        places = list(self._ids if self._kept else unread)
        for at in range(0, len(places), self._batch):
            texts = [self._ids[number] for number in places[at : at + self._batch]]
            states = [embedded(self._front, ids, [0] * len(ids)) for ids in texts]
            yield places[at : at + self._batch], states

    def take(self, numbers: Sequence[int], answers: Sequence[Answer]) -> None:
        """Takes the answers to a request."""
        self._answers.update(zip(numbers, answers, strict=True))

    def logits(self, number: int, _: Sequence[int]) -> Logits:
        """Returns the logits of a text that was asked about."""
        answer = self._answers.pop(number)
        return answer.anyway.vector, answer.trusted

    def source(self, number: int, choice: Choice, step: float) -> Local:
        """Returns the source of a text. step: of `Local`."""
        return Local(partial(self.logits, number), choice, step)


NONE = -1  # in place of the number of a token that is withheld


def withhold(token: Token, options: TextOptions) -> Token:
    """Returns the token; in place of one that is not sound and not to be shown, one that tells nothing."""
    return token if token.sound or options.show_anyway else Token(NONE, "", sound=False)


def only(tokens: Iterator[tuple[int, Token]], options: TextOptions) -> Iterator[Token]:
    """Yields the tokens of the only text. Raises PlanError for one that is not sound and not to be shown."""
    for number, (_, token) in enumerate(tokens, 1):
        yield token if options.show_anyway else require_sound(token, number)


def require_sound(token: Token, number: int) -> Token:
    """Returns the token. Raises PlanError unless it is sound. number: of the token in its text, from 1."""
    if not token.sound:
        raise PlanError(
            f"generate: values left the calibrated ranges at token {number}, which is not shown",
            hint="calibrate on texts like this one (--texts); --show-anyway shows it",
        )
    return token


def _overlap(text: str, stop: str) -> int:
    """Measures the longest end of the text that is a beginning of `stop`, in characters."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)


# How a text is written, whoever writes it: the most tokens, the texts that end it, the choice of a token.

TOKENS = 64  # to be written at most, by default


@dataclass(frozen=True)
class TextOptions:
    """How a text is written. max_tokens: to be written at most. stop: texts before which it ends.
    show_anyway: tokens that are not sound, too. cache: by rows that the server of ciphertexts keeps, which
    learns how many there are. Raises InputError for no tokens, or for an empty text."""

    max_tokens: int = TOKENS
    stop: tuple[str, ...] = ()
    choice: Choice = field(default_factory=Choice)
    show_anyway: bool = field(default=False, kw_only=True)
    cache: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or not all(self.stop):
            raise InputError(
                f"generate: {self.max_tokens} tokens, stop texts {list(self.stop)!r:.80}",
                hint="at least one token, and texts that are not empty",
            )


def stop_texts(stop: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the texts, or the one."""
    return (stop,) if isinstance(stop, str) else tuple(stop)


def ends_of(config: Any, options: TextOptions) -> Ends:
    """Combines what ends a text: what was asked for, and the tokens of the model's folder."""
    return Ends(options.max_tokens, frozenset(getattr(config, "ends", None) or ()), options.stop)


def ids_of(front: Embedder, prompt: str, *, begun: bool) -> list[int]:
    """A prompt's tokens, without those that the tokenizer adds where they stand behind a beginning. Raises
    InputError, CheckpointError."""
    return tokenize(front, prompt, special=not begun)[0]


def prompt_of(front: Embedder, prompt: str, most: int, room: int, *, before: int = 0) -> list[int]:
    """Returns the prompt's token ids. most: tokens behind it. room: positions. before: tokens of a beginning.
    Raises InputError where they do not fit together."""
    ids = ids_of(front, prompt, begun=before > 0)
    if before + len(ids) + most > room + 1:  # what is written last is not read
        raise InputError(
            f"generate: a prompt of {len(ids)} tokens, {before} before and {most} behind it, "
            f"in {room} positions",
            hint="shorten the prompt, or ask for fewer tokens",
        )
    return ids


def speller(front: Embedder) -> Callable[[Sequence[int]], str]:
    """Tokens -> their text. Raises CheckpointError where there is no tokenizer."""
    tokenizer = front.tokenizer
    if tokenizer is None:
        raise CheckpointError("generate: the model has no tokenizer", hint="load it with embeddings")
    return lambda ids: str(tokenizer.decode(list(ids)))
