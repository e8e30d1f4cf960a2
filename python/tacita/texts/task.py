"""Which question a model answers: the two names in its configuration that say what its numbers mean.

task="text"       one answer a text or an image: a label where the model has labels, else a vector
task="tokens"     a label for every token (named entities, species of an antibody)
task="span"       for every token how well an answer starts there, and how well it ends there
task="words"      for every token a number for each word of the vocabulary
task="next"       a number for each word of the vocabulary: how well it goes on behind the text

A plan for ciphertexts that tells the likeliest word alone has the task "choice", which no model has.

problem="single_label"   one of the labels: softmax
problem="multi_label"    any of them: a sigmoid of each
problem="regression"     the numbers themselves
problem="search"         scores of documents (`tacita.documents`)

What a model can be asked for: the verbs of the Python interface and the commands.

>>> import tacita
>>> kind_of(tacita.load().config)
'classify'
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeAlias

from tacita.errors import InputError
from tacita.texts.answer import Answer, classes, regression, several
from tacita.texts.embed import Tokens
from tacita.texts.generation import Next, choice
from tacita.texts.spans import Rows, extract, fill, tags
from tacita.texts.vectors import Embedding, search

TEXT, TOKENS, SPAN, WORDS, NEXT = TASKS = ("text", "tokens", "span", "words", "next")
CHOICE = "choice"
EVERY_TOKEN = (TOKENS, SPAN, WORDS)  # the answer has a row for each token
SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label", "multi_label", "regression"
SEARCH = "search"
PROBLEMS = (SINGLE_LABEL, MULTI_LABEL, REGRESSION, SEARCH)


class TaskModel(Protocol):
    """What of a model decides what its answer means: plans and configurations have it."""

    @property
    def task(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...


def labelled(model: TaskModel) -> bool:
    """Whether its labels are those of its task: a start and an end, some for tokens, none for words, of the
    text or of what comes next."""
    match model.task:
        case "tokens":
            return len(model.labels) > 0
        case "span":
            return len(model.labels) == 2
        case "words" | "next":
            return not model.labels
        case _:
            return True


def is_vector(model: TaskModel) -> bool:
    """Whether its answer is the vector of a text or an image, an embedding."""
    return model.task == TEXT and not model.labels


GIVES = {
    "classify": "a label",
    "embed": "a vector",
    "search": "scores of documents",
    "tag": "a label for every token",
    "answer": "the start and the end of an answer",
    "fill": "words of its vocabulary for every token",
    "generate": "the token that comes next",
    "rerank": "one number for a pair of texts",
}
OF_TASKS = {TOKENS: "tag", SPAN: "answer", WORDS: "fill", NEXT: "generate", CHOICE: "generate"}


def kind_of(model: TaskModel) -> str:
    """The verb for a model, a key of `GIVES`."""
    if model.task != TEXT:
        return OF_TASKS[model.task]
    if is_vector(model):
        return "embed"
    return "search" if model.problem == SEARCH else "classify"


def suits(verbs: Collection[str], model: TaskModel) -> bool:
    """Tells whether a model can be asked with one of these verbs. To rerank takes a classifier with one
    logit, a cross-encoder, which `classify` asks for the number itself."""
    kind = kind_of(model)
    return kind in verbs or ("rerank" in verbs and kind == "classify" and len(model.labels) == 1)


def require_kind(verb: str, model: TaskModel, *others: str) -> None:
    """Raises InputError unless the model can be asked with this verb. others: kinds that it takes besides."""
    if not suits((verb, *others), model):
        kind = kind_of(model)
        raise InputError(
            f"{verb}: the model answers with {GIVES[kind]}, not {GIVES[verb]}",
            hint=f"tacita.{kind} in Python, tacita {kind} on the command line",
        )


# From numbers to the answer of a task: the one place that knows all of them.

Logits: TypeAlias = tuple[float, ...]
READERS = {SINGLE_LABEL: classes, MULTI_LABEL: several, REGRESSION: regression, SEARCH: search}


def read(model: TaskModel, logits: Logits, warnings: tuple[str, ...], rows: int = 1) -> Answer:
    """Turns rounded numbers of a model, those of all rows after each other, into its answer, as far as it can
    be told without the text. rows: of a model with an answer for every token, tokens."""
    if model.task in EVERY_TOKEN:
        return Rows(None, logits, warnings, len(logits) // rows)
    if model.task == NEXT:
        return Next(None, logits, warnings)
    if model.task == CHOICE:
        return choice(logits, warnings)
    if not model.labels:
        return Embedding(None, logits, warnings)
    return READERS[model.problem](model.labels, logits, warnings)


def about(model: TaskModel, answer: Answer, tokens: Tokens) -> Answer:
    """The same answer, told by the text's tokens where it has a row for each. Raises InputError for a text
    that the task cannot be about."""
    if not isinstance(answer, Rows):
        return answer
    if model.task == SPAN:
        return extract(answer, tokens)
    return fill(answer, tokens) if model.task == WORDS else tags(answer, model.labels, tokens)
