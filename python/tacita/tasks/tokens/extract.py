"""Extractive question answering: which characters of the context answer the question.

The model gives every token two numbers: how well an answer starts there, and how well it ends there. Both
become probabilities over the tokens of the context and the first token, which models are trained to choose
where the context has no answer. The span of the largest product wins, if it starts before it ends, has at
most `MOST_TOKENS` tokens and lies in the context; it is widened to whole words.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tacita.errors import InputError
from tacita.front.tokens import Tokens
from tacita.tasks.answer import Array, softmax
from tacita.tasks.tokens.rows import Rows
from tacita.tasks.tokens.tags import Span

MOST_TOKENS = 15  # of an answer, as in transformers' pipeline
ANSWER = "answer"  # label of the span
CONTEXT = 1  # part of the pair (question, context)


@dataclass(frozen=True, repr=False)
class Extract(Rows):
    """span: characters of the context, with the score from 0 to 1. label: None."""

    span: Span = field(default_factory=lambda: Span(ANSWER, 0.0, "", 0, 0, CONTEXT))

    @property
    def score(self) -> float:
        """Of the span."""
        return self.span.score

    @property
    def told(self) -> str:
        """The span's text and score."""
        return f"{self.span.text} ({self.score:.3f})"

    def fields(self) -> dict[str, Any]:
        """With the span."""
        return {**super().fields(), "span": asdict(self.span)}


def extract(answer: Rows, about: Tokens) -> Extract:
    """Rows of (start, end) logits, one a token -> the best span. Raises InputError unless the text is a
    pair."""
    inside = np.array([token.part == CONTEXT for token in about.tokens])
    if not inside.any():
        raise InputError("a question without its context", hint="pass the pair (question, context)")
    starts, ends = (_probabilities(column, inside) for column in answer.table.T)
    begin, end, score = best_span(starts, ends)
    first, last = about.tokens[begin].word[0], about.tokens[end].word[1]
    span = Span(ANSWER, score, about.parts[CONTEXT][first:last], first, last, CONTEXT)
    return Extract(None, answer.logits, answer.warnings, answer.outputs, span)


def best_span(starts: Array, ends: Array, most: int = MOST_TOKENS) -> tuple[int, int, float]:
    """Both (tokens,) -> (first token, last token, product) of the largest product of a possible span.

    >>> best_span(np.array([0.1, 0.2, 0.7]), np.array([0.6, 0.3, 0.1]))
    (2, 2, 0.06999999999999999)
    """
    products = np.tril(np.triu(np.outer(starts, ends)), most - 1)
    first, last = np.unravel_index(int(products.argmax()), products.shape)
    return int(first), int(last), float(products[first, last])


def _probabilities(logits: Array, inside: Array) -> Array:
    """Over the context and the first token; of tokens outside the context 0."""
    counted = inside.copy()
    counted[0] = True
    found = softmax(np.where(counted, logits, -np.inf))
    return np.where(inside, found, 0.0)
