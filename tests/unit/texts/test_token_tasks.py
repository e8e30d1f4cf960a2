"""Models that answer for every token, from a folder to spans, answers and filled masks: in every scheme on
the meaning and with its noise or roundings, and between two parties for real.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

import tacita
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.reference import reference
from tacita.errors import InputError
from tacita.progress import Progress
from tacita.texts.embed import Text, Tokens, embed, length_of, tokens_of
from tacita.texts.inputs import Pair, windows
from tacita.texts.spans import Candidate, Extract, Fill, Mask, Tags, best_window

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "the [MASK] is bad"]
TOY: dict[str, Any] = {"tokens": 16, "scheme": "bumblebee", "texts": TEXTS}
BIO = ("O", "B-ART", "I-ART")
MODELS = {
    "tag": make_random_checkpoint(layers=1, labels=BIO, task="tokens"),
    "answer": make_random_checkpoint(layers=1, labels=("start", "end"), task="span"),
    "fill": make_random_checkpoint(layers=1, labels=(), task="words"),
}
QUESTION, CONTEXT = "is it dull", "the plot is never dull , a very good film"
ASKED: dict[str, Text] = {
    "tag": "the plot is a fine film",
    "answer": (QUESTION, CONTEXT),
    "fill": "the [MASK] is a [MASK]",
}


def asked(verb: str, scheme: str = "bumblebee", **how: Any) -> Any:
    """scheme: after a colon the packing."""
    model, (name, _, packing) = MODELS[verb], scheme.partition(":")
    how = {**TOY, "scheme": name, "packing": packing or None, **how}
    how |= {} if name == "bumblebee" else {"preset": "insecure_toy_n10"}
    if verb == "answer":
        return tacita.answer(QUESTION, how.pop("context", CONTEXT), model=model, **how)
    return getattr(tacita, verb)(ASKED[verb], model=model, **how)


# What is told of a table of numbers is the same code in every scheme: all of it with one, each scheme once.
EVERY = [(verb, scheme) for verb in MODELS for scheme in ("thor", "bumblebee")]
EVERY += [("tag", "thor:multidiagonal"), ("fill", "leaf"), ("answer", "arion"), ("fill", "moai")]


@pytest.mark.parametrize(("verb", "scheme"), EVERY)
def test_every_scheme_answers_for_every_token_of_the_text_and_no_padding(verb: str, scheme: str) -> None:
    """On the meaning as floats do, and with noise or roundings as on the meaning."""
    hidden, mask = embed(MODELS[verb], ASKED[verb], 16)
    wanted = reference(MODELS[verb], hidden, mask).logits[mask > 0.0]
    plain, sim = (asked(verb, scheme, backend=backend) for backend in ("plain", "sim"))
    assert plain.table.shape == wanted.shape
    step = 0.0 if scheme == "bumblebee" else 0.1  # a toy ring's noise leaves one decimal or more
    assert np.abs(plain.table - wanted).max() < 0.02 + step / 2
    assert type(sim) is type(plain) and not sim.warnings
    assert np.abs(sim.vector - plain.vector).max() < 0.02 + step
    if step:  # of equal rounded numbers noise may choose another
        return
    match sim:
        case Tags():
            assert [(s.label, s.start, s.end) for s in sim.spans] == [
                (s.label, s.start, s.end) for s in plain.spans
            ]
        case Extract():
            assert sim.span.text == plain.span.text and sim.span.text in CONTEXT
        case Fill():
            assert sim.text == plain.text and "[MASK]" not in sim.text


@pytest.mark.native
@pytest.mark.parametrize("verb", MODELS)
def test_two_parties_answer_for_real(verb: str) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    wanted, found = asked(verb, backend="plain"), asked(verb, backend="ckks")
    assert type(found) is type(wanted)
    assert np.abs(found.vector - wanted.vector).max() < 0.02


def test_a_list_of_texts_gets_a_list() -> None:
    found = tacita.tag(TEXTS[:2], model=MODELS["tag"], backend="plain", **TOY)
    assert [len(answer.tokens) for answer in found] == [3, 4]  # type: ignore[attr-defined]


def test_pipelines_answer_as_transformers_does() -> None:
    how: dict[str, Any] = {"backend": "plain", **TOY}
    tagger = tacita.pipeline("token-classification", model=MODELS["tag"], **how)
    answer = asked("tag", backend="plain")
    groups = tagger("the plot is a fine film")
    assert [tuple(row) for row in groups] == [("entity_group", "score", "word", "start", "end")] * len(groups)
    assert [row["word"] for row in groups] == [span.text for span in answer.spans]
    each = tagger("the plot is a fine film", aggregation_strategy="none")
    assert {"entity", "score", "index", "word", "start", "end"} == set(each[0])
    assert len(each) == sum(token.label != "O" for token in answer.tokens)
    reader = tacita.pipeline("question-answering", model=MODELS["answer"], **how)
    row = reader(question=QUESTION, context=CONTEXT)
    assert row == reader([{"question": QUESTION, "context": CONTEXT}])[0]
    assert CONTEXT[row["start"] : row["end"]] == row["answer"] and 0.0 < row["score"] < 1.0
    filler = tacita.pipeline("fill-mask", model=MODELS["fill"], **how)
    (first, second) = filler("the [MASK] film", top_k=2)
    assert set(first) == {"score", "token", "token_str", "sequence"} and first["score"] >= second["score"]
    assert first["sequence"] == f"the {first['token_str'].removeprefix('##')} film"
    both = filler("a [MASK] and a [MASK]", top_k=1)
    assert [len(mask) for mask in both] == [1, 1]


def test_a_pair_is_filled_in_its_first_text() -> None:
    model, how = MODELS["fill"], {"backend": "plain", **TOY}
    filled = tacita.fill(Pair("a [MASK] film", "the plot is dull"), model=model, **how)
    assert filled.text.endswith(" film") and len(filled.masks) == 1
    with pytest.raises(InputError, match="a mask in the second text"):
        tacita.fill(Pair("the plot is dull", "a [MASK] film"), model=model, **how)


@pytest.mark.parametrize("space", ["\u0120", "\u2581"])
def test_pieces_with_a_sign_for_their_space_are_written_with_a_space(space: str) -> None:
    def filled(masked: str, *pieces: str) -> str:
        places = [match.span() for match in re.finditer(" ?<mask>", masked)]
        masks = [Mask(*at, (Candidate(piece, 1.0),)) for at, piece in zip(places, pieces, strict=True)]
        return Fill(None, (), (), masks=tuple(masks), masked=masked).text

    assert filled("a fine <mask>.", f"{space}film") == "a fine film."
    assert filled("<mask> is un<mask>", f"{space}it", "able") == "it is unable"


@pytest.mark.parametrize("verb", MODELS)
def test_commands_answer_from_a_folder(verb: str, tmp_path: Path) -> None:
    folder = write_folder(MODELS[verb], tmp_path / verb)
    assert same(load(folder), MODELS[verb])
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    report = tmp_path / "report.json"
    text = {"answer": QUESTION, "fill": "the [MASK] is good"}.get(verb, TEXTS[0])
    words = [verb, text, *(["--context", CONTEXT] if verb == "answer" else [])]
    small = ["--model", str(folder), "--tokens", "16", "--texts", str(tmp_path / "texts.txt")]
    words += [*small, "--scheme", "bumblebee", "--backend", "plain", "--json", str(report)]
    status, out, err = run(*words)
    assert status == 0, err
    found = json.loads(report.read_text())
    assert found["agreement"] == 1.0 and found["max_abs_error"] < 0.02
    shown = {"tag": "characters", "answer": "of the context", "fill": "score"}
    assert shown[verb] in out
    assert {"tag": "spans", "answer": "span", "fill": "masks"}[verb] in found


LONG = " ".join([CONTEXT] * 6)  # 61 tokens


def test_windows_of_a_context_hold_every_answer_and_fit() -> None:
    model, tokens = MODELS["answer"], 36
    parts = windows(model, Pair(QUESTION, LONG), tokens)
    own = [token for token in tokens_of(model, (QUESTION, LONG)).tokens if token.part == 1]
    words = {token.word[0] for token in own}
    inside = [(first, first + len(text[1])) for text, first in parts]
    assert len(parts) > 2 and all(length_of(model, text) <= tokens for text, _ in parts)
    for text, first in parts:
        assert text[0] == QUESTION and LONG[first:].startswith(text[1]) and first in words
    for begin, end in zip(own, own[14:], strict=False):  # each answer of 15 tokens
        assert any(low <= begin.start and end.end <= high for low, high in inside)
    assert windows(model, Pair(QUESTION, CONTEXT), tokens) == [(Pair(QUESTION, CONTEXT), 0)]
    with pytest.raises(InputError, match="of them for the question"):
        windows(model, Pair(QUESTION, LONG), 16)
    with pytest.raises(InputError, match="over 64 windows"):
        windows(model, Pair(QUESTION, " ".join([LONG] * 40)), tokens)


def test_the_best_answer_of_all_windows_counts() -> None:
    how: dict[str, Any] = {"tokens": 36, "backend": "plain"}
    reports = list[Progress]()
    answer = asked("answer", context=LONG, progress=reports.append, **how)
    parts = windows(MODELS["answer"], Pair(QUESTION, LONG), 36)
    each = [asked("answer", context=text[1], **how) for text, _ in parts]
    best = int(np.argmax([one.score for one in each]))
    assert answer.score == each[best].score and answer.logits == each[best].logits
    span = answer.span
    assert LONG[span.start : span.end] == span.text == each[best].span.text
    assert span.start == each[best].span.start + parts[best].first
    cut = asked("answer", context=LONG, truncate=True, **how)
    assert cut.warnings == (f"truncated: the model saw 36 of {len(tokens_of_pair(LONG))} tokens",)
    failed = replace(each[best], trusted=False, logits=())
    left = best_window([failed, each[best - 1]], [7, 11])
    assert left.span.start == each[best - 1].span.start + 11
    assert best_window([failed, failed], [7, 11]).empty


def tokens_of_pair(context: str) -> Tokens:
    return tokens_of(MODELS["answer"], (QUESTION, context))


def test_the_command_tells_windows_and_where_the_answer_stands(tmp_path: Path) -> None:
    folder = write_folder(MODELS["answer"], tmp_path / "answer")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    small = ["--model", str(folder), "--tokens", "36", "--texts", str(tmp_path / "texts.txt")]
    small += ["--scheme", "bumblebee", "--backend", "plain"]
    status, out, err = run("answer", QUESTION, "--context", LONG, *small)
    assert status == 0, err
    span = asked("answer", context=LONG, tokens=36, backend="plain").span
    assert "the context takes 3 windows of up to 36 tokens" in out
    assert f"characters {span.start} to {span.end} of the context" in out


def same(found: Checkpoint, wanted: Checkpoint) -> bool:
    return found.config == wanted.config and all(
        np.allclose(found.tensors[name], tensor, atol=1e-6) for name, tensor in wanted.tensors.items()
    )
