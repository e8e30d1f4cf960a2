"""What a model can be asked for: the verbs of the Python interface and the commands.

>>> import tacita
>>> kind_of(tacita.load().config)
'classify'
"""

from __future__ import annotations

from tacita.errors import InputError
from tacita.tasks.task import CHOICE, NEXT, SEARCH, SPAN, TEXT, TOKENS, WORDS, Asked, is_vector

GIVES = {
    "classify": "a label",
    "embed": "a vector",
    "search": "scores of documents",
    "tag": "a label for every token",
    "answer": "the start and the end of an answer",
    "fill": "words of its vocabulary for every token",
    "generate": "the token that comes next",
}
OF_TASKS = {TOKENS: "tag", SPAN: "answer", WORDS: "fill", NEXT: "generate", CHOICE: "generate"}


def kind_of(model: Asked) -> str:
    """The verb for a model, a key of `GIVES`."""
    if model.task != TEXT:
        return OF_TASKS[model.task]
    if is_vector(model):
        return "embed"
    return "search" if model.problem == SEARCH else "classify"


def require_kind(verb: str, model: Asked, *others: str) -> None:
    """Raises InputError unless the model can be asked with this verb. others: kinds that it takes besides."""
    kind = kind_of(model)
    if kind not in (verb, *others):
        raise InputError(
            f"{verb}: the model answers with {GIVES[kind]}, not {GIVES[verb]}",
            hint=f"tacita.{kind} in Python, tacita {kind} on the command line",
        )
