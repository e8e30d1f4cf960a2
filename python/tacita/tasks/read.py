"""From numbers to the answer of a task: the one place that knows all of them."""

from __future__ import annotations

from typing import TypeAlias

from tacita.front.tokens import Tokens
from tacita.tasks.answer import Answer
from tacita.tasks.classes import classes
from tacita.tasks.embedding import Embedding
from tacita.tasks.next import Next, choice
from tacita.tasks.regression import regression
from tacita.tasks.search import search
from tacita.tasks.several import several
from tacita.tasks.task import (
    CHOICE,
    EVERY_TOKEN,
    MULTI_LABEL,
    NEXT,
    REGRESSION,
    SEARCH,
    SINGLE_LABEL,
    SPAN,
    WORDS,
)
from tacita.tasks.task import Asked as Asked
from tacita.tasks.tokens.extract import extract
from tacita.tasks.tokens.fill import fill
from tacita.tasks.tokens.rows import Rows
from tacita.tasks.tokens.tags import tags

Logits: TypeAlias = tuple[float, ...]
READERS = {SINGLE_LABEL: classes, MULTI_LABEL: several, REGRESSION: regression, SEARCH: search}


def read(model: Asked, logits: Logits, warnings: tuple[str, ...], rows: int = 1) -> Answer:
    """Rounded numbers of a model, those of all rows after each other -> its answer, as far as it can be told
    without the text. rows: of a model with an answer for every token, tokens."""
    if model.task in EVERY_TOKEN:
        return Rows(None, logits, warnings, len(logits) // rows)
    if model.task == NEXT:
        return Next(None, logits, warnings)
    if model.task == CHOICE:
        return choice(logits, warnings)
    if not model.labels:
        return Embedding(None, logits, warnings)
    return READERS[model.problem](model.labels, logits, warnings)


def about(model: Asked, answer: Answer, tokens: Tokens) -> Answer:
    """The same answer, told by the text's tokens where it has a row for each. Raises InputError for a text
    that the task cannot be about."""
    if not isinstance(answer, Rows):
        return answer
    if model.task == SPAN:
        return extract(answer, tokens)
    return fill(answer, tokens) if model.task == WORDS else tags(answer, model.labels, tokens)
