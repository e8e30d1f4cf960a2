"""What all answers have. Each task has a class of its own beside this file, with what its numbers mean.

>>> answer = Answer("positive", (-1.561, 1.706), ())
>>> answer.wording
'positive'
>>> answer.to_json()
{'label': 'positive', 'logits': [-1.561, 1.706], 'warnings': [], 'trusted': True}
>>> failed = withhold_failed(Answer("positive", (50.8, 56.3), ("beyond its bound",), trusted=False))
>>> (failed.label, failed.logits, failed.warnings)
(None, (), ('beyond its bound',))
>>> failed
Answer('no answer: its checks failed', privacy='unknown', 1 warnings)
>>> failed.anyway.label
'positive'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
A = TypeVar("A", bound="Answer")
ANYBODY = ("label", "logits", "warnings")  # fields of every answer; a task's own have defaults


@dataclass(frozen=True, repr=False)
class Answer:
    """An answer. label: None where the answer is not one label. logits: the model's numbers, rounded to the
    plan's decimals; of a model that answers for every token, row by row. warnings: reasons to doubt them.
    trusted: whether the answer passed its checks; one that did not is `empty`. privacy: what protected the
    text, such as "none: sim encrypts nothing"; empty where that is not known."""

    label: str | None
    logits: tuple[float, ...]
    warnings: tuple[str, ...]
    trusted: bool = field(default=True, kw_only=True)
    privacy: str = field(default="", kw_only=True, compare=False)
    content: Answer | None = field(default=None, kw_only=True, compare=False)

    def __repr__(self) -> str:
        """Returns at most 300 characters: the answer in a few words, the protection, the number of
        warnings."""
        doubts = f", {len(self.warnings)} warnings" if self.warnings else ""
        return f"{type(self).__name__}({self.summary[:120]!r}, privacy={self.privacy or 'unknown'!r}{doubts})"

    @property
    def anyway(self) -> Self:
        """The answer, also where it failed its checks: for who must look at what was decrypted. It may say
        anything, the secret key included, and belongs on no screen that a server can see."""
        decrypted = replace(self.content, privacy=self.privacy) if self.content else self
        return cast(Self, decrypted)  # of the same class: see `withhold_failed`

    @property
    def empty(self) -> bool:
        """Whether it failed its checks and is not shown: it then has no label, no logits and no scores."""
        return not self.trusted and not self.logits

    @property
    def summary(self) -> str:
        """Returns `wording`, or that there is no answer."""
        return "no answer: its checks failed" if self.empty else self.wording

    @property
    def vector(self) -> Array:
        """The logits as an array, (outputs,): the text's embedding, of a model without classifier."""
        return np.array(self.logits)

    @property
    def rows(self) -> int:
        """Number of rows of the logits: 1, or one for every token."""
        return 1

    @property
    def wording(self) -> str:
        """The answer in a few words, for people. It may hold text of anybody: escape it for a terminal."""
        if self.label is not None:
            return self.label
        return f"{len(self.logits)} numbers, norm {np.linalg.norm(self.vector):.3f}"

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as plain data, with null for label and logits of an answer that is `empty`."""
        doubts = {"warnings": list(self.warnings), "trusted": self.trusted}
        return {"label": None, "logits": None, **doubts} if self.empty else {**self.fields(), **doubts}

    def fields(self) -> dict[str, Any]:
        """Returns what is shown, as plain data; a task's class adds its own."""
        return {"label": self.label, "logits": list(self.logits)}


def withhold_failed(answer: A) -> A:
    """Returns the same where it passed its checks; else one of its class that is `empty`."""
    if answer.trusted:
        return answer
    own = [each for each in fields(answer) if not each.kw_only and each.name not in ANYBODY]
    blank: dict[str, Any] = {
        each.name: each.default if each.default_factory is MISSING else each.default_factory() for each in own
    }
    return replace(answer, label=None, logits=(), content=answer, **blank)


@dataclass(frozen=True)
class Score:
    """A label and how likely it is, from 0 to 1 (of a search: how near the document is)."""

    label: str
    score: float

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {"label": self.label, "score": self.score}


def ordered(labels: Sequence[str], scores: Sequence[float]) -> tuple[Score, ...]:
    """Pairs labels and scores, the highest score first; of equal ones the first label."""
    pairs = [Score(label, float(score)) for label, score in zip(labels, scores, strict=True)]
    return tuple(sorted(pairs, key=lambda each: -each.score))


def softmax(values: Array) -> Array:
    """Computes exp(x_i) / sum_j exp(x_j) over the last axis, of finite values."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
