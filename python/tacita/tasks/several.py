"""Any number of labels at once: each logit is a question of its own, and its score is its sigmoid.

>>> answer = several(("sports", "politics", "arts"), (2.0, -1.0, 0.5), ())
>>> answer.labels
('sports', 'arts')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.tasks.answer import Answer, Score, ordered

LEAST = 0.5  # a score above it says that the label holds


@dataclass(frozen=True, repr=False)
class Several(Answer):
    """scores: of all labels, the most likely first; each is from 0 to 1 by itself. label: the first of
    `labels`, None where no label holds."""

    scores: tuple[Score, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Those with a score above 0.5."""
        return tuple(each.label for each in self.scores if each.score > LEAST)

    @property
    def told(self) -> str:
        """All labels that hold."""
        return ", ".join(self.labels) or "no label"

    def fields(self) -> dict[str, Any]:
        """With the labels that hold and all scores."""
        scores = [score.to_json() for score in self.scores]
        return {**super().fields(), "labels": list(self.labels), "scores": scores}


def several(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Several:
    """Scores of the rounded logits."""
    scores = ordered(labels, sigmoid(np.array(logits)).tolist())
    label = scores[0].label if scores[0].score > LEAST else None
    return Several(label, logits, warnings, scores)


def sigmoid(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), without overflow for any finite x."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))
