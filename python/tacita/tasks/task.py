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
"""

from __future__ import annotations

from typing import Protocol

TEXT, TOKENS, SPAN, WORDS, NEXT = TASKS = ("text", "tokens", "span", "words", "next")
CHOICE = "choice"
EVERY_TOKEN = (TOKENS, SPAN, WORDS)  # the answer has a row for each token
SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label", "multi_label", "regression"
SEARCH = "search"
PROBLEMS = (SINGLE_LABEL, MULTI_LABEL, REGRESSION, SEARCH)


class Asked(Protocol):
    """What of a model decides what its answer means: plans and configurations have it."""

    @property
    def task(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...


def labelled(model: Asked) -> bool:
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


def is_vector(model: Asked) -> bool:
    """Whether its answer is the vector of a text or an image, an embedding."""
    return model.task == TEXT and not model.labels
