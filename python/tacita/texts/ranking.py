"""Documents by their relevance to a query, as a cross-encoder sees it: a model of pairs with one logit.

>>> pairs = [Answer(None, (-3.2,), ()), Answer(None, (1.4,), (), privacy="bumblebee")]
>>> rank(["ships", "tea"], pairs)
Ranking('tea 0.802', 2 documents, privacy='bumblebee')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.errors import InputError
from tacita.texts.answer import Answer, sigmoid


@dataclass(frozen=True)
class Rank:
    """A document of a ranking. index: its place among those that were given. score: the sigmoid of the
    rounded logit, from 0 to 1; None where the answer failed its checks. answer: that of the pair."""

    index: int
    document: str
    score: float | None
    answer: Answer

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as plain data, with those of the answer."""
        place = {"index": self.index, "document": self.document, "score": self.score}
        return {**place, **self.answer.to_json()}


@dataclass(frozen=True, repr=False)
class Ranking:
    """Documents, the most relevant first; those whose answers failed their checks are the last."""

    ranks: tuple[Rank, ...]

    def __repr__(self) -> str:
        first, privacy = self.ranks[0], self.privacy or "unknown"
        score = "no answer: its checks failed" if first.score is None else f"{first.score:.3f}"
        return f"Ranking('{first.document:.100} {score}', {len(self.ranks)} documents, {privacy=})"

    def _repr_html_(self) -> str:
        from tacita.bar import answer_card

        return answer_card(self)

    @property
    def privacy(self) -> str:
        """What protected query and documents, as of `Answer.privacy`."""
        return next((each.answer.privacy for each in self.ranks if each.answer.privacy), "")

    def best(self, most: int | None = None) -> tuple[Rank, ...]:
        """Returns the first `most` documents, by default all."""
        return self.ranks[:most]


def rank(documents: Sequence[str], answers: Sequence[Answer]) -> Ranking:
    """Sorts documents by the answers of their pairs; of equal scores the first document stays first."""
    scores = [float(sigmoid(np.array(each.logits[0]))) if each.logits else None for each in answers]
    ranks = [Rank(*row) for row in zip(range(len(documents)), documents, scores, answers, strict=True)]
    return Ranking(tuple(sorted(ranks, key=lambda each: 1.0 if each.score is None else -each.score)))


def pairs_of(query: str, documents: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs the query with each document. Raises InputError for no document, or a text in place of a list."""
    if isinstance(documents, str) or not documents:
        raise InputError("rerank: no list of documents", hint="pass a query, and the documents as a list")
    return [(query, document) for document in documents]
