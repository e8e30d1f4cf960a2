"""What all answers have, and answers of labels. Each other task has a class of its own beside this file, with
what its numbers mean.

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

One label of several: scores are the softmax of the rounded logits, computed where the answer is decrypted.

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

from collections.abc import Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass, replace
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
        """Returns at most 300 characters: the answer in a few words, the protection, how many warnings."""
        doubts = f", {len(self.warnings)} warnings" if self.warnings else ""
        return f"{type(self).__name__}({self.summary[:120]!r}, privacy={self.privacy or 'unknown'!r}{doubts})"

    def _repr_html_(self) -> str:
        from tacita.bar import answer_card

        return answer_card(self)

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
        """Returns what is shown, as plain data: label, logits and the fields of a task's class."""
        own = {name: _plain(getattr(self, name)) for name in _own_fields(self)}
        return {"label": self.label, "logits": list(self.logits), **own}


def _own_fields(answer: Answer) -> dict[str, Field[Any]]:
    """Returns the fields that a task's class has besides those of all answers."""
    return {each.name: each for each in fields(answer) if not each.kw_only and each.name not in ANYBODY}


def _plain(value: Any) -> Any:
    """Returns a field as plain data, by its own `to_json` where it has one."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def withhold_failed(answer: A) -> A:
    """Returns the same where it passed its checks; else one of its class that is `empty`."""
    if answer.trusted:
        return answer
    blank: dict[str, Any] = {
        name: each.default if each.default_factory is MISSING else each.default_factory()
        for name, each in _own_fields(answer).items()
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


# Answers of labels: one of several, any number at once, and numbers that are the answer themselves.


@dataclass(frozen=True, repr=False)
class Classes(Answer):
    """One label of several. scores: of all labels, the most likely first; they add up to 1."""

    scores: tuple[Score, ...] = ()


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
        """Adds the labels that hold."""
        return {**super().fields(), "labels": list(self.labels)}


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
        """Returns the numbers by name in place of the names."""
        shown = super().fields()
        del shown["names"]
        return {**shown, "values": self.values}


def regression(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Regression:
    """Builds an answer of the rounded numbers as they are."""
    return Regression(None, logits, warnings, labels)
