"""Which documents are nearest: the numbers of a search are scores of documents, the largest the nearest.

>>> nearest = search(("tea", "ships", "rain"), (0.1, 0.9, 0.3), ())
>>> [each.label for each in nearest.best(2)]
['ships', 'rain']

A server that scores a query against its own vectors (`tacita.documents`) sends the dot product with each of
them: the client, which alone can decrypt them, sorts. Of an index of the client's own (`index`), it computes
the scores as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacita.tasks.answer import Answer, Score, ordered


@dataclass(frozen=True, repr=False)
class Search(Answer):
    """scores: of all documents, the nearest first. label: that of the nearest."""

    scores: tuple[Score, ...] = ()

    def best(self, most: int) -> tuple[Score, ...]:
        """The nearest so many."""
        return self.scores[:most]

    def fields(self) -> dict[str, Any]:
        """With the scores."""
        return {**super().fields(), "scores": [score.to_json() for score in self.scores]}


def search(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Search:
    """labels: of the documents. logits: their scores, rounded."""
    scores = ordered(labels, logits)
    return Search(scores[0].label, logits, warnings, scores)
