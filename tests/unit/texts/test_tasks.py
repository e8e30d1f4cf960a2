"""What the numbers of an answer mean, task by task: logits made by hand, tokens of the default model's
tokenizer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tacita
from tacita.errors import InputError
from tacita.plans.answers import judge, understood
from tacita.texts.answer import Answer, Classes, Regression, Several
from tacita.texts.embed import tokens_of
from tacita.texts.embedding import Front
from tacita.texts.spans import Extract, Fill, Rows, Tags, best_span
from tacita.texts.task import kind_of, require_kind
from tacita.texts.vectors import Embedding, Search

BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
SENTENCE = "Marie Curie worked in Paris with Pierre."
PAIR = ("Who wrote it?", "The book was written by Astrid Lindgren in 1945.")


@dataclass
class Head:
    """Of a plan, what an answer is read by."""

    task: str = "text"
    problem: str = "single_label"
    labels: tuple[str, ...] = ()
    logit_step: float = 0.001
    normalise: bool = False
    answer: float = 50.0


@pytest.fixture(scope="module")
def front() -> Front:
    model = tacita.load()
    return Front(model.config, model.tensors, model.tokenizer)


def told(head: Any, values: Any, front: Front | None = None, text: Any = None) -> Any:
    return understood(head, judge(head, np.array(values, dtype=float)), front, text)


def logits_of(front: Front, text: Any, marks: dict[str, int], outputs: int) -> np.ndarray:
    """Rows in which every token of a word has its class's logit at 6 and the others at 0; class 0 for words
    that are not named."""
    about = tokens_of(front, text)
    rows = np.zeros((len(about), outputs))
    for row, token in zip(rows, about.tokens, strict=True):
        word = "" if token.part is None else about.parts[token.part][slice(*token.word)]
        inside = token.part is not None and token.start > token.word[0]  # ## pieces go on
        kind = marks.get(word, 0)
        row[kind + 1 if inside and kind and BIO[kind][0] == "B" else kind] = 6.0
    return rows


def test_one_label_has_the_softmax_of_the_rounded_logits() -> None:
    found = told(Head(labels=("a", "b", "c")), [1.00049, 2.0, 1.00051])
    assert isinstance(found, Classes)
    assert found.logits == (1.0, 2.0, 1.001)
    powers = np.exp(found.logits)
    assert [each.label for each in found.scores] == ["b", "c", "a"]
    assert found.scores[0].score == pytest.approx(powers[1] / powers.sum(), rel=1e-12)
    assert sum(each.score for each in found.scores) == pytest.approx(1.0)


def test_of_equal_rounded_logits_the_first_label_wins_whatever_the_digits_below_say() -> None:
    found = told(Head(labels=("a", "b")), [0.1001, 0.1002])
    assert (found.label, found.scores[0].label) == ("a", "a")


def test_several_labels_hold_by_themselves() -> None:
    found = told(Head(problem="multi_label", labels=("a", "b", "c")), [2.0, 0.0, 40.0])
    assert isinstance(found, Several)
    assert found.labels == ("c", "a")  # a sigmoid of exactly 0.5 does not hold
    assert found.scores[1].score == pytest.approx(1 / (1 + np.exp(-2.0)))
    failed = told(Head(problem="multi_label", labels=("a", "b", "c")), [2.0, 0.0, 900.0])
    assert isinstance(failed, Several) and failed.empty
    assert (failed.label, failed.labels, failed.scores, failed.logits) == (None, (), (), ())
    assert failed.anyway.labels == ("c", "a")
    none = told(Head(problem="multi_label", labels=("a", "b")), [-1.0, -900.0]).anyway
    assert (none.label, none.labels, none.wording, none.scores[1].score) == (None, (), "no label", 0.0)


def test_a_regression_is_its_numbers() -> None:
    found = told(Head(problem="regression", labels=("likeness",)), [3.25449])
    assert isinstance(found, Regression)
    assert (found.label, found.values, found.wording) == (None, {"likeness": 3.254}, "likeness 3.254")


def test_a_search_sorts_scores_as_they_are() -> None:
    found = told(Head(problem="search", labels=("0", "1", "2")), [-1.0, 7.0, 2.0])
    assert isinstance(found, Search)
    assert [(each.label, each.score) for each in found.best(2)] == [("1", 7.0), ("2", 2.0)]


def test_vectors_of_one_direction_are_alike() -> None:
    near, far = (told(Head(), values) for values in ([1.0, 2.0, 2.0], [2.0, 4.0, 4.0]))
    other, nothing = told(Head(), [2.0, -2.0, 1.0]), told(Head(), [0.0, 0.0, 0.0])
    assert isinstance(near, Embedding)
    assert near.similarity(far) == pytest.approx(1.0)
    assert near.similarity(other) == pytest.approx(0.0)
    assert near.similarity(nothing) == 0.0


def test_spans_stand_where_the_text_has_them(front: Front) -> None:
    marks = {"Marie": 1, "Curie": 2, "Paris": 3, "Pierre": 1}
    found = told(Head("tokens", labels=BIO), logits_of(front, SENTENCE, marks, 5), front, SENTENCE)
    assert isinstance(found, Tags)
    assert [(span.label, span.text) for span in found.spans] == [
        ("PER", "Marie Curie"),
        ("LOC", "Paris"),
        ("PER", "Pierre"),
    ]
    assert all(SENTENCE[span.start : span.end] == span.text for span in found.spans)
    assert found.spans[0].score == pytest.approx(np.exp(6.0) / (np.exp(6.0) + 4.0))
    pieces = [token for token in tokens_of(front, SENTENCE).tokens if token.part is not None]
    assert [token.piece for token in found.tokens] == [token.piece for token in pieces]


def test_a_b_begins_anew_and_an_i_of_another_label_does_too(front: Front) -> None:
    text = "Paris London Berlin Rome"
    labels = {"Paris": 3, "London": 3, "Berlin": 4, "Rome": 2}  # B-LOC B-LOC I-LOC I-PER
    found = told(Head("tokens", labels=BIO), logits_of(front, text, labels, 5), front, text)
    assert [span.text for span in found.spans] == ["Paris", "London Berlin", "Rome"]


def test_tokens_without_a_span_are_kept(front: Front) -> None:
    found = told(Head("tokens", labels=BIO), logits_of(front, SENTENCE, {}, 5), front, SENTENCE)
    assert (found.spans, found.wording) == ((), "no span")
    assert {token.label for token in found.tokens} == {"O"}


def scored(front: Front, text: Any, starts: dict[int, float], ends: dict[int, float]) -> np.ndarray:
    """Rows of (start, end) logits that are 0 but for the tokens at these characters of the context."""
    about = tokens_of(front, text)
    rows = np.zeros((len(about), 2))
    for row, token in zip(rows, about.tokens, strict=True):
        if token.part == 1:
            row[:] = starts.get(token.start, 0.0), ends.get(token.end, 0.0)
    return rows


def test_the_best_span_of_the_context_answers(front: Front) -> None:
    context = PAIR[1]
    begin, end = context.index("Astrid"), context.index(" in 1945")
    rows = scored(front, PAIR, {begin: 9.0}, {end: 9.0, context.index(" book"): 12.0})
    found = told(Head("span", labels=("start", "end")), rows, front, PAIR)
    assert isinstance(found, Extract)  # the likelier end lies before the start: no span
    assert (found.span.text, found.span.start, found.span.end) == ("Astrid Lindgren", begin, end)
    assert 0.0 < found.score < 1.0


def test_no_answer_lies_in_the_question_or_spans_too_many_tokens(front: Front) -> None:
    text = ("who who who", " ".join(["word"] * 40))
    rows = np.zeros((len(tokens_of(front, text)), 2))
    rows[1] = 30.0  # a token of the question, far above all others
    rows[6, 0], rows[40, 1] = 5.0, 5.0  # 35 tokens apart
    found = told(Head("span", labels=("start", "end")), rows, front, text)
    assert len(found.span.text.split()) <= 15
    assert found.span.part == 1


def test_the_best_span_is_that_of_a_search_of_all() -> None:
    rng = np.random.default_rng(3)
    for most in (1, 3, 15):
        starts, ends = rng.random(12), rng.random(12)
        pairs = [(starts[i] * ends[j], i, j) for i in range(12) for j in range(i, min(12, i + most))]
        product, first, last = max(pairs)
        assert best_span(starts, ends, most) == (first, last, pytest.approx(product))


def test_a_question_without_context_is_refused(front: Front) -> None:
    rows = np.zeros((len(tokens_of(front, "who?")), 2))
    with pytest.raises(InputError, match="without its context"):
        told(Head("span", labels=("start", "end")), rows, front, "who?")


def test_masks_are_filled_with_the_likeliest_words(front: Front) -> None:
    text = "the [MASK] is [MASK]."
    about, size = tokens_of(front, text), front.config.vocab
    assert front.tokenizer is not None
    film, plot, good = (front.tokenizer.token_to_id(word) for word in ("film", "plot", "good"))
    rows = np.zeros((len(about), size))
    first, second = (i for i, token in enumerate(about.tokens) if token.id == about.mask)
    rows[first, [film, plot]] = 12.0, 11.0
    rows[second, good] = 12.0
    found = told(Head("words"), rows, front, text)
    assert isinstance(found, Fill)
    assert found.text == "the film is good."
    assert [each.label for each in found.masks[0].best(2)] == ["film", "plot"]
    assert [each.token for each in found.masks[0].best(2)] == [film, plot]
    assert sum(each.score for each in found.masks[0].scores) == pytest.approx(1.0)


def test_a_text_without_a_mask_is_refused(front: Front) -> None:
    rows = np.zeros((len(tokens_of(front, "the film")), 4))
    with pytest.raises(InputError, match="no mask"):
        told(Head("words"), rows, front, "the film")


def test_rows_of_padding_are_dropped(front: Front) -> None:
    rows = logits_of(front, SENTENCE, {"Paris": 3}, 5)
    padded = np.concatenate([rows, np.full((9, 5), 99.0)])  # beyond the bound, were it not dropped
    head: Any = Head("tokens", labels=BIO)
    answer = judge(head, padded, real=len(rows))
    assert (answer.rows, answer.warnings) == (len(rows), ())
    assert understood(head, judge(head, padded), front, SENTENCE).anyway.logits == answer.logits


def test_without_the_text_an_answer_about_tokens_is_its_rows(front: Front) -> None:
    head: Any = Head("tokens", labels=BIO)
    answer = judge(head, np.zeros((7, 5)))
    assert isinstance(answer, Rows)
    assert answer.table.shape == (7, 5)
    assert understood(head, answer, None, None) is answer
    with pytest.raises(InputError, match="7 tokens, the text has"):
        understood(head, answer, front, SENTENCE)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (Head(labels=("a",)), "classify"),
        (Head(), "embed"),
        (Head(problem="search", labels=("0",)), "search"),
        (Head("tokens", labels=BIO), "tag"),
        (Head("span", labels=("start", "end")), "answer"),
        (Head("words"), "fill"),
    ],
)
def test_a_model_is_asked_by_its_kind_and_no_other(head: Any, kind: str) -> None:
    assert kind_of(head) == kind
    require_kind(kind, head)
    other = "embed" if kind != "embed" else "tag"
    with pytest.raises(InputError, match=f"{other}: the model answers with") as refused:
        require_kind(other, head)
    assert f"tacita.{kind}" in refused.value.hint


def test_every_answer_is_plain_json_and_keeps_what_all_have(front: Front) -> None:
    answers: list[Answer] = [
        told(Head(labels=("a", "b")), [1.0, 2.0]),
        told(Head(problem="multi_label", labels=("a", "b")), [1.0, 2.0]),
        told(Head(problem="regression", labels=("a",)), [1.0]),
        told(Head(problem="search", labels=("a", "b")), [1.0, 2.0]),
        told(Head(), [1.0, 2.0]),
        told(Head("tokens", labels=BIO), logits_of(front, SENTENCE, {"Paris": 3}, 5), front, SENTENCE),
        told(Head("span", labels=("start", "end")), scored(front, PAIR, {}, {}), front, PAIR),
    ]
    for answer in answers:
        found = json.loads(json.dumps(answer.to_json()))
        assert {"label", "logits", "warnings"} <= set(found)
        assert found["logits"] == list(answer.logits)
        assert isinstance(answer, Answer)
        assert answer.wording
