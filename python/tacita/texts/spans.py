"""Answers for every token: numbers, before it is known which text they are about, and what they say of it.

Who decrypts has numbers; what they say about a text, the text is needed for. `Client.decrypt` without the
text gives `Rows`, and with it what `tags`, `extract` or `fill` make of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from tacita.errors import InputError
from tacita.texts.answer import Answer, Array, Score, softmax
from tacita.texts.embed import Tokens


@dataclass(frozen=True, repr=False)
class Rows(Answer):
    """An answer for every token. outputs: numbers a token; the logits hold them token by token."""

    outputs: int = 1

    @property
    def rows(self) -> int:
        """Number of tokens."""
        return len(self.logits) // self.outputs

    @property
    def table(self) -> Array:
        """The logits as (tokens, outputs)."""
        return np.array(self.logits).reshape(-1, self.outputs)

    @property
    def wording(self) -> str:
        """The sizes: nothing else is known without the text."""
        return f"{self.rows} tokens x {self.outputs} numbers, of a text not given"


# Token classification: labels of tokens, and the spans that they mark, with where these stand in the text.
#
# Labels are read as BIO: B-PER begins a person, I-PER goes on with one, O is nothing. A label without such a
# mark goes on where the token before has the same one. Neighbours of one label make a span, whose score is
# the mean of its tokens' (aggregation "simple" of transformers' pipeline).

NOTHING = "O"


@dataclass(frozen=True)
class Span:
    """Characters of a text with a label. label: without B- or I-. score: from 0 to 1. text: characters start
    to end of its part."""

    label: str
    score: float
    text: str
    start: int
    end: int
    part: int = 0


@dataclass(frozen=True)
class TaggedToken:
    """A token of the text. label: the model's, with its mark. piece: as the vocabulary spells it."""

    label: str
    score: float
    piece: str
    start: int
    end: int
    part: int = 0


@dataclass(frozen=True, repr=False)
class Tags(Rows):
    """Labels of tokens and the spans that they mark. spans: in the order of the text, O left out. tokens: all
    of the text, and their labels. label: None."""

    spans: tuple[Span, ...] = ()
    tokens: tuple[TaggedToken, ...] = ()

    @property
    def wording(self) -> str:
        """The spans with their labels."""
        return ", ".join(f"{span.text} ({span.label})" for span in self.spans) or "no span"


def tags(answer: Rows, labels: tuple[str, ...], about: Tokens) -> Tags:
    """Turns rows of logits, one a token, into their labels and spans."""
    tokens = list[TaggedToken]()
    for token, row in zip(about.tokens, softmax(answer.table), strict=True):
        if token.part is not None:
            best, where = int(np.argmax(row)), (token.start, token.end, token.part)
            tokens.append(TaggedToken(labels[best], float(row[best]), token.piece, *where))
    spans = tuple(_spans(tokens, about.parts))
    return Tags(None, answer.logits, answer.warnings, answer.outputs, spans, tuple(tokens))


def _spans(tokens: Sequence[TaggedToken], parts: Sequence[str]) -> Iterator[Span]:
    """Yields neighbours of one label and one part as one; a B- always begins a new span."""
    begun = accumulate(token.label.startswith("B-") for token in tokens)
    kinds = [
        (re.sub("^[BI]-", "", token.label), token.part, count)
        for token, count in zip(tokens, begun, strict=True)
    ]
    for (label, part, _), pairs in groupby(zip(kinds, tokens, strict=True), lambda pair: pair[0]):
        group = [token for _, token in pairs]
        if label != NOTHING:
            start, end = group[0].start, group[-1].end
            score = float(np.mean([token.score for token in group]))
            yield Span(label, score, parts[part][start:end], start, end, part)


# Extractive question answering: which characters of the context answer the question.
#
# The model gives every token two numbers: how well an answer starts there, and how well it ends there. Both
# become probabilities over the tokens of the context and the first token, which models are trained to choose
# where the context has no answer. The span of the largest product wins, if it starts before it ends, has at
# most `MOST_TOKENS` tokens and lies in the context; it is widened to whole words.

MOST_TOKENS = 15  # of an answer, as in transformers' pipeline
ANSWER = "answer"  # label of the span
CONTEXT = 1  # part of the pair (question, context)


@dataclass(frozen=True, repr=False)
class Extract(Rows):
    """The answer to a question. span: characters of the context, with the score from 0 to 1. label: None."""

    span: Span = field(default_factory=lambda: Span(ANSWER, 0.0, "", 0, 0, CONTEXT))

    @property
    def score(self) -> float:
        """Score of the span."""
        return self.span.score

    @property
    def wording(self) -> str:
        """The span's text and score."""
        return f"{self.span.text} ({self.score:.3f})"


def extract(answer: Rows, about: Tokens) -> Extract:
    """Turns rows of (start, end) logits, one a token, into the best span. Raises InputError unless the text
    is a pair."""
    inside = np.array([token.part == CONTEXT for token in about.tokens])
    if not inside.any():
        raise InputError("a question without its context", hint="pass the pair (question, context)")
    starts, ends = (_probabilities(column, inside) for column in answer.table.T)
    begin, end, score = best_span(starts, ends)
    first, last = about.tokens[begin].word[0], about.tokens[end].word[1]
    span = Span(ANSWER, score, about.parts[CONTEXT][first:last], first, last, CONTEXT)
    return Extract(None, answer.logits, answer.warnings, answer.outputs, span)


def best_window(answers: Sequence[Extract], begins: Sequence[int]) -> Extract:
    """Returns the answer of the highest score among those of a context's windows, its characters counted in
    the whole context, with the logits of its window and the warnings of all. begins: characters before each
    window. Windows that failed their checks count only where all did."""
    trusted = [pair for pair in zip(answers, begins, strict=True) if not pair[0].empty]
    best, first = max(trusted or [(answers[0], 0)], key=lambda pair: pair[0].score)
    span = replace(best.span, start=best.span.start + first, end=best.span.end + first)
    warnings = tuple(dict.fromkeys(warning for one in answers for warning in one.warnings))
    return replace(best, span=span, warnings=warnings)


def best_span(starts: Array, ends: Array, most: int = MOST_TOKENS) -> tuple[int, int, float]:
    """Finds the possible span of the largest product: both (tokens,) -> (first token, last token, product).

    >>> best_span(np.array([0.1, 0.2, 0.7]), np.array([0.6, 0.3, 0.1]))
    (2, 2, 0.06999999999999999)
    """
    products = np.tril(np.triu(np.outer(starts, ends)), most - 1)
    first, last = np.unravel_index(int(products.argmax()), products.shape)
    return int(first), int(last), float(products[first, last])


def _probabilities(logits: Array, inside: Array) -> Array:
    """Computes probabilities over the context and the first token; 0 for tokens outside the context."""
    counted = inside.copy()
    counted[0] = True
    shares = softmax(np.where(counted, logits, -np.inf))
    return np.where(inside, shares, 0.0)


# Fill-mask: which words of the vocabulary stand best where the text has its mask token.
#
# For vocabularies as small as those of proteins, reactions and SMILES: every token has a number for each
# word, and all of them are sent.

CANDIDATES = 5  # candidates of a mask that are told
SPACES = ("\u0120", "\u2581")  # of byte-level pieces, and of SentencePiece's


@dataclass(frozen=True)
class Candidate(Score):
    """A piece that may stand in place of a mask. label: a piece, as the vocabulary spells it. token: its
    number."""

    token: int = 0


@dataclass(frozen=True)
class Mask:
    """A mask of the text. start, end: its characters. scores: of the whole vocabulary, the likeliest
    first."""

    start: int
    end: int
    scores: tuple[Candidate, ...]

    def best(self, most: int = CANDIDATES) -> tuple[Candidate, ...]:
        """Returns the likeliest `most` candidates."""
        return self.scores[:most]

    def to_json(self) -> dict[str, Any]:
        """Returns place and candidates."""
        scores = [one.to_json() for one in self.best()]
        return {"start": self.start, "end": self.end, "scores": scores}


@dataclass(frozen=True, repr=False)
class Fill(Rows):
    """The masks of a text with their candidates. masks: of the text, in its order. masked: the text with
    them. label: None."""

    masks: tuple[Mask, ...] = ()
    masked: str = ""

    @property
    def text(self) -> str:
        """The text with the likeliest piece in place of each mask."""
        return self.fill_in([(mask, mask.scores[0]) for mask in self.masks])

    def fill_in(self, chosen: Sequence[tuple[Mask, Candidate]]) -> str:
        """Returns the text with these pieces in place of their masks."""
        text = self.masked
        for mask, one in reversed(chosen):  # from the end, so that earlier places stay where they are
            text = text[: mask.start] + _written(one.label) + text[mask.end :]
        return text.removeprefix("" if self.masked.startswith(" ") else " ")

    @property
    def wording(self) -> str:
        """The candidates of each mask."""
        each = (", ".join(f"{one.label} {one.score:.3f}" for one in mask.best()) for mask in self.masks)
        return "; ".join(each)

    def fields(self) -> dict[str, Any]:
        """Returns the filled text in place of the masked one."""
        shown = super().fields()
        del shown["masked"]
        return {**shown, "text": self.text}


def _written(piece: str) -> str:
    """Returns a piece as it stands in a text: some vocabularies have a sign for the space before it, which
    such a mask takes along."""
    return f" {piece[1:]}" if piece[:1] in SPACES else piece.removeprefix("##")


def fill(answer: Rows, about: Tokens) -> Fill:
    """Turns rows of logits (tokens, vocabulary) into candidates of each mask. Raises InputError for a text
    without a mask, and for one in the second text of a pair."""
    at = [i for i, token in enumerate(about.tokens) if token.id == about.mask and token.part is not None]
    if not at:
        named = about.piece(about.mask) if about.mask is not None else "a mask token, which it lacks"
        raise InputError("fill: the text has no mask", hint=f"the tokenizer's mask is {named}")
    if any(about.tokens[i].part for i in at):
        raise InputError("fill: a mask in the second text", hint="the text to fill comes first")
    scores = softmax(answer.table[at])
    masks = tuple(_mask(about, i, row) for i, row in zip(at, scores, strict=True))
    return Fill(None, answer.logits, answer.warnings, answer.outputs, masks, about.parts[0])


def _mask(about: Tokens, at: int, scores: Array) -> Mask:
    token, order = about.tokens[at], np.argsort(-scores, kind="stable").tolist()
    candidates = tuple(Candidate(about.piece(i), float(scores[i]), i) for i in order)
    return Mask(token.start, token.end, candidates)
