"""One label of several: scores are the softmax of the rounded logits, computed where the answer is decrypted.

>>> answer = classes(("negative", "positive"), (-1.561, 1.706), ())
>>> answer.label, round(answer.scores[0].score, 3)
('positive', 0.963)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.tasks.answer import Answer, Score, ordered, softmax


@dataclass(frozen=True, repr=False)
class Classes(Answer):
    """scores: of all labels, the most likely first; they add up to 1."""

    scores: tuple[Score, ...] = ()

    def fields(self) -> dict[str, Any]:
        """With the scores."""
        return {**super().fields(), "scores": [score.to_json() for score in self.scores]}


def classes(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Classes:
    """The label is that of the largest rounded logit, of several equal ones the first: what is not shown
    decides nothing that anybody sees."""
    label = labels[int(np.argmax(logits))]
    return Classes(label, logits, warnings, ordered(labels, softmax(np.array(logits)).tolist()))
