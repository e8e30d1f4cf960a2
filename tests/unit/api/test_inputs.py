"""What may be passed as texts, texts that are cut, unknown names, other libraries' names, and `help`."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

import tacita
from tacita.errors import InputError
from tacita.texts.embed import length_of
from tacita.texts.inputs import Pair, texts_of, truncated

WORDS = ["a fine film", "the plot is dull"]
TOY: dict[str, Any] = {
    "tokens": 16,
    "preset": "insecure_toy_n10",
    "texts": [*WORDS, "never boring , very good", "bad"],
    "backend": "plain",
}
MODEL = make_random_checkpoint(layers=1)
ENCODER = make_random_checkpoint(layers=1, pooling="mean", labels=())


@pytest.mark.parametrize(
    "given",
    [
        WORDS,
        (word for word in WORDS),
        np.array(WORDS),
        np.array(WORDS, dtype=object),
    ],
)
def test_any_iterable_of_strings_is_texts(given: Any) -> None:
    texts, several = texts_of(given)
    assert texts == WORDS and several and all(type(text) is str for text in texts)


def test_pairs_are_named_or_stand_in_a_list() -> None:
    assert texts_of(Pair("a", "b")) == ([("a", "b")], False)
    assert texts_of([("a", "b"), ["c", "d"]]) == ([("a", "b"), ("c", "d")], True)
    assert texts_of(np.array("alone")) == (["alone"], False)
    for given in (("a", "b"), ("a", "b", "c"), ()):
        with pytest.raises(InputError, match="one pair, or") as caught:
            texts_of(given)
        assert "tacita.Pair(first, second)" in caught.value.hint
    with pytest.raises(InputError, match="one pair, or 2 texts"):
        tacita.classify(("a", "b"), model=MODEL, **TOY)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="one pair, or 2 texts"):
        tacita.pipeline("ner", model=make_random_checkpoint(layers=1, task="tokens"), **TOY)(("a", "b"))


@pytest.mark.parametrize(
    "given", [3, None, b"bytes", {"text": "a"}, {"a", "b"}, ["a", 3], [("a", 3)], [b"a"]]
)
def test_anything_else_is_refused_by_its_type(given: Any) -> None:
    with pytest.raises(InputError, match="of type"):
        texts_of(given)


def test_an_array_of_texts_is_answered_as_a_list() -> None:
    wanted = tacita.classify(WORDS, model=MODEL, **TOY)
    assert tacita.classify(np.array(WORDS), model=MODEL, **TOY) == wanted
    assert tacita.classify(iter(WORDS), model=MODEL, **TOY) == wanted


LONG = "the film is fine and the plot is dull but never boring and very good , a fine film and bad"


def test_a_text_is_cut_only_where_that_was_asked_for() -> None:
    with pytest.raises(InputError, match="the text has"):
        tacita.classify(LONG, model=MODEL, **TOY)
    cut, whole = tacita.classify([LONG, WORDS[0]], model=MODEL, truncate=True, **TOY)
    count = length_of(MODEL, LONG)
    assert cut.warnings == (f"truncated: the model saw 16 of {count} tokens",) and not whole.warnings
    text, _ = truncated(MODEL, LONG, 16)
    assert isinstance(text, str) and LONG.startswith(text) and length_of(MODEL, text) == 16
    assert cut.logits == tacita.classify(text, model=MODEL, **TOY).logits


def test_a_pair_is_cut_at_its_longer_part() -> None:
    cut, warning = truncated(MODEL, Pair("a fine film", LONG), 16)
    assert isinstance(cut, Pair) and cut.first == "a fine film" and LONG.startswith(cut.second)
    assert length_of(MODEL, cut) == 16 and warning
    for pair, kept in (
        (Pair(LONG, "dull film is bad the plot"), (5, 4)),
        (Pair("dull film is", LONG), (3, 6)),
    ):
        cut, _ = truncated(MODEL, pair, 12)  # of equal parts the longer one keeps the odd token
        assert (len(cut[0].split()), len(cut[1].split())) == kept
    assert truncated(MODEL, "fine", 16) == ("fine", "")
    with pytest.raises(InputError, match="2 tokens hold nothing"):
        truncated(MODEL, LONG, 2)


@pytest.mark.parametrize(
    ("how", "hint"),
    [
        ({"scheme": "torh"}, "did you mean thor? one of thor, leaf"),
        ({"backend": "ckk"}, "did you mean ckks? one of plain, sim, ckks"),
        ({"preset": "n61"}, "did you mean n16?"),
        ({"objective": "latence"}, "did you mean latency?"),
        ({"functions": "taccita"}, "did you mean tacita?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(how: dict[str, str], hint: str) -> None:
    with pytest.raises(InputError) as caught:
        tacita.classify("fine", model=MODEL, **{**TOY, **how})
    assert caught.value.hint.startswith(hint)


def test_pipelines_have_the_names_that_transformers_has() -> None:
    toy = dict(TOY)
    alias = tacita.pipeline("sentiment-analysis", model=MODEL, **toy)
    assert alias(WORDS) == tacita.pipeline("text-classification", model=MODEL, **toy)(WORDS)
    assert alias(word for word in WORDS) == alias(WORDS)
    assert alias.task == "text-classification"
    with pytest.raises(InputError) as caught:
        tacita.pipeline("sentiment-analyses", model=MODEL)
    assert "did you mean sentiment-analysis?" in caught.value.hint
    like = tacita.pipeline("sentence-similarity", model=ENCODER, **toy)
    same, other = like({"source_sentence": WORDS[0], "sentences": WORDS})
    assert same == pytest.approx(1.0) and other < 1.0
    with pytest.raises(InputError, match="not a source"):
        like("fine")


def test_a_pipeline_generates() -> None:
    writer = tacita.pipeline("text-generation", backend="plain")
    (row,) = writer("Emma could", max_new_tokens=3)
    (alone,) = writer("Emma could", max_new_tokens=3, return_full_text=False)
    assert row["generated_text"] == "Emma could" + alone["generated_text"] != "Emma could"
    assert writer(["Emma could", "Emma could"], max_new_tokens=3) == [[row], [row]]


@pytest.mark.parametrize("name", sorted(set(tacita.__all__) - {"errors", "__version__"}))
def test_help_names_no_path_of_this_machine(name: str) -> None:
    text = pydoc.render_doc(getattr(tacita, name), renderer=pydoc.plaintext)
    assert "PosixPath" not in text and str(Path(tacita.__file__).parent) not in text


@pytest.mark.parametrize("name", ["answer", "classify", "embed", "fill", "rerank", "search", "tag"])
def test_help_has_a_line_for_every_keyword(name: str) -> None:
    function = getattr(tacita, name)
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    keywords = [each.name for each in inspect.signature(function).parameters.values() if each.kind == 3]
    assert len(keywords) == 26 + (name == "rerank") and "how" not in keywords
    for keyword in set(keywords) - {"top_n"}:
        assert sum(line.startswith(f"    {keyword}: ") for line in text.splitlines()) == 1, keyword
