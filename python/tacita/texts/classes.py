"""One label of several: scores are the softmax of the rounded logits, computed where the answer is decrypted.

>>> answer = classes(("negative", "positive"), (-1.561, 1.706), ())
>>> answer.label, round(answer.scores[0].score, 3)
('positive', 0.963)

Any number of labels at once: each logit is a question of its own, and its score is its sigmoid.

>>> answer = several(("sports", "politics", "arts"), (2.0, -1.0, 0.5), ())
>>> answer.labels
('sports', 'arts')

Numbers that are the answer themselves, as of a model that grades how alike two sentences are.

>>> regression(("LABEL_0",), (3.254,), ()).wording
'LABEL_0 3.254'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.texts.answer import Answer, Score, ordered, softmax


@dataclass(frozen=True, repr=False)
class Classes(Answer):
    """One label of several. scores: of all labels, the most likely first; they add up to 1."""

    scores: tuple[Score, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Adds the scores."""
        return {**super().fields(), "scores": [score.to_json() for score in self.scores]}


def classes(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Classes:
    """Builds an answer whose label is that of the largest rounded logit, of several equal ones the first:
    what is not shown decides nothing that anybody sees."""
    label = labels[int(np.argmax(logits))]
    return Classes(label, logits, warnings, ordered(labels, softmax(np.array(logits)).tolist()))


LEAST = 0.5  # a score above it says that the label holds


@dataclass(frozen=True, repr=False)
class Several(Answer):
    """Any number of labels. scores: of all labels, the most likely first; each is from 0 to 1 by itself.
    label: the first of `labels`, None where no label holds."""

    scores: tuple[Score, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels with a score above 0.5."""
        return tuple(each.label for each in self.scores if each.score > LEAST)

    @property
    def wording(self) -> str:
        """All labels that hold."""
        return ", ".join(self.labels) or "no label"

    def fields(self) -> dict[str, Any]:
        """Adds the labels that hold, and all scores."""
        scores = [score.to_json() for score in self.scores]
        return {**super().fields(), "labels": list(self.labels), "scores": scores}


def several(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Several:
    """Builds an answer whose scores are the sigmoids of the rounded logits."""
    scores = ordered(labels, sigmoid(np.array(logits)).tolist())
    label = scores[0].label if scores[0].score > LEAST else None
    return Several(label, logits, warnings, scores)


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Computes 1 / (1 + exp(-x)), without overflow for any finite x."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))


@dataclass(frozen=True, repr=False)
class Regression(Answer):
    """Numbers with names. names: of the numbers, in the order of the logits. label: None."""

    names: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        """The numbers by name."""
        return dict(zip(self.names, self.logits, strict=True))

    @property
    def scores(self) -> tuple[Score, ...]:
        """The numbers as scores, in the order of the logits."""
        return tuple(Score(name, value) for name, value in self.values.items())

    @property
    def wording(self) -> str:
        """Each name with its number."""
        return ", ".join(f"{name} {value:.3f}" for name, value in self.values.items())

    def fields(self) -> dict[str, Any]:
        """Adds the numbers by name."""
        return {**super().fields(), "values": self.values}


def regression(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Regression:
    """Builds an answer of the rounded numbers as they are."""
    return Regression(None, logits, warnings, labels)
