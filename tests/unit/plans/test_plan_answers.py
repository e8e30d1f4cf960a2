"""What a client reads of an answer is tied to the task that a plan states: a hostile one makes it read no
more rows, and no more numbers of a row."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pytest
from plan_changes import Change, all_of, drop, put
from plans import altered
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.errors import CheckpointError, FileError
from tacita.plans.json_fields import canonical
from tacita.plans.plan import Plan, parse
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "the film is bad"]
LABELS = {"text": ("no", "yes"), "tokens": ("O", "B", "I"), "span": ("start", "end"), "words": ()}
PACKINGS = ("thor:rows", "thor:multidiagonal", "arion")


@lru_cache
def plan_of(task: str, scheme: str) -> Any:
    """scheme: after a colon the packing."""
    model = make_random_checkpoint(layers=1, task=task, labels=LABELS[task])
    name, _, packing = scheme.partition(":")
    ring = {} if name == "bumblebee" else {"preset": "insecure_toy_n9", "packing": packing or None}
    return api.plan(model, scheme=name, tokens=8, texts=TEXTS, **ring)


ROWS = "layout", "response", "rows"


@pytest.mark.parametrize("scheme", PACKINGS)
def test_rows_are_those_of_the_task(scheme: str) -> None:
    tokens, text = plan_of("tokens", scheme), plan_of("text", scheme)
    assert isinstance(tokens, Plan) and parse(tokens.to_text(), "here") == tokens
    assert tokens.layout.response.rows == tokens.tokens and text.layout.response.rows == 1
    for plan, change in (
        (text, put(*ROWS, value=8)),
        (tokens, put(*ROWS, value=1)),
        (tokens, put(*ROWS, value=4)),
        (tokens, drop("model", "task")),
        (text, put("model", "task", value="tokens")),
    ):
        with pytest.raises(FileError, match="layout: rows of the answer"):
            parse(altered(plan, change), "here")


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("tokens", put("model", "labels", value=[]), "labels of the task"),
        ("tokens", put("model", "task", value="span"), "labels of the task"),
        ("tokens", put("model", "task", value="poem"), "task"),
        ("words", put("model", "labels", value=["a", "b"]), "labels of the task"),
        ("words", put("model", "embeddings", value=None), "labels of the task"),
        ("words", put("model", "embeddings", "vocab", value=30522), "numbers of an answer"),
        (
            "words",
            all_of(
                put("model", "embeddings", "vocab", value=1 << 20),
                put("layout", "response", "size", value=1 << 20),
            ),
            "numbers of an answer",
        ),
    ],
)
def test_numbers_of_a_row_are_those_of_the_task(task: str, change: Change, message: str) -> None:
    with pytest.raises(FileError, match=message):
        parse(altered(plan_of(task, "thor:rows"), change), "here")


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("words", put("config", "vocab", value=30522), "numbers of an answer"),
        ("words", put("config", "labels", value=["a"]), "options"),
        ("span", put("config", "labels", value=["start", "end", "more"]), "options"),
        ("tokens", put("config", "labels", value=[]), "options"),
        ("tokens", drop("config", "task"), "options"),
    ],
)
def test_two_parties_tie_them_too(task: str, change: Change, message: str) -> None:
    plan = plan_of(task, "bumblebee")
    assert isinstance(plan, TwoPartyPlan)
    fields = json.loads(plan.to_bytes())
    change(fields)
    with pytest.raises(FileError, match=message):
        parse_plan(canonical(fields))


def test_a_model_whose_labels_are_not_its_tasks_is_refused() -> None:
    for task, labels in (("tokens", ()), ("span", ("start",)), ("words", ("a",))):
        with pytest.raises(CheckpointError, match=f"task '{task}' with {len(labels)} labels"):
            make_random_checkpoint(layers=1, task=task, labels=labels)
