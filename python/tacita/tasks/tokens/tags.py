"""Token classification: labels of tokens, and the spans that they mark, with where these stand in the text.

Labels are read as BIO: B-PER begins a person, I-PER goes on with one, O is nothing. A label without such a
mark goes on where the token before has the same one. Neighbours of one label make a span, whose score is the
mean of its tokens' (aggregation "simple" of transformers' pipeline).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacita.front.tokens import Token, Tokens
from tacita.tasks.answer import softmax
from tacita.tasks.tokens.rows import Rows

NOTHING = "O"


@dataclass(frozen=True)
class Span:
    """label: without B- or I-. score: from 0 to 1. text: characters start to end of its part."""

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
    """spans: in the order of the text, O left out. tokens: all of the text, and their labels. label: None."""

    spans: tuple[Span, ...] = ()
    tokens: tuple[TaggedToken, ...] = ()

    @property
    def told(self) -> str:
        """The spans with their labels."""
        return ", ".join(f"{span.text} ({span.label})" for span in self.spans) or "no span"

    def fields(self) -> dict[str, Any]:
        """With spans and tokens."""
        spans, tokens = [asdict(span) for span in self.spans], [asdict(token) for token in self.tokens]
        return {**super().fields(), "spans": spans, "tokens": tokens}


def tags(answer: Rows, labels: tuple[str, ...], about: Tokens) -> Tags:
    """Rows of logits, one a token -> their labels and spans."""
    scores = softmax(answer.table)
    rows = [(token, row) for token, row in zip(about.tokens, scores, strict=True) if token.part is not None]
    tokens = tuple(_tagged(token, row, labels) for token, row in rows)
    return Tags(
        None,
        answer.logits,
        answer.warnings,
        answer.outputs,
        tuple(_spans(tokens, about.parts)),
        tokens,
    )


def _tagged(token: Token, scores: np.ndarray, labels: tuple[str, ...]) -> TaggedToken:
    best = int(np.argmax(scores))
    where = token.start, token.end, token.part or 0
    return TaggedToken(labels[best], float(scores[best]), token.piece, *where)


def _spans(tokens: Sequence[TaggedToken], parts: Sequence[str]) -> Iterator[Span]:
    for group in _groups(tokens):
        label, part = _marked(group[0].label)[1], group[0].part
        if label != NOTHING:
            start, end = group[0].start, group[-1].end
            score = float(np.mean([token.score for token in group]))
            yield Span(label, score, parts[part][start:end], start, end, part)


def _groups(tokens: Sequence[TaggedToken]) -> Iterator[list[TaggedToken]]:
    """Neighbours of one label and one part; a B- always begins a new group."""
    group: list[TaggedToken] = []
    for token in tokens:
        mark, label = _marked(token.label)
        here = (label, token.part)
        if group and (mark == "B" or here != (_marked(group[-1].label)[1], group[-1].part)):
            yield group
            group = []
        group.append(token)
    if group:
        yield group


def _marked(label: str) -> tuple[str, str]:
    """("B", "PER") of B-PER; a label without a mark goes on."""
    return (label[0], label[2:]) if label[:2] in ("B-", "I-") else ("I", label)
