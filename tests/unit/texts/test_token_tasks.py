"""Models that answer for every token, from a folder to spans, answers and filled masks: in every scheme on
the meaning and with its noise or roundings, and between two parties for real.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

import tacita
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.reference import reference
from tacita.texts.embed import Text, embed
from tacita.texts.spans import Extract, Fill, Tags

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "the [MASK] is bad"]
TOY: dict[str, Any] = {"tokens": 16, "scheme": "bumblebee", "texts": TEXTS}
SCHEMES = ("thor", "thor:multidiagonal", "leaf", "arion", "moai", "bumblebee")
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
        return tacita.answer(QUESTION, CONTEXT, model=model, **how)
    return getattr(tacita, verb)(ASKED[verb], model=model, **how)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("verb", MODELS)
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


def same(found: Checkpoint, wanted: Checkpoint) -> bool:
    return found.config == wanted.config and all(
        np.allclose(found.tensors[name], tensor, atol=1e-6) for name, tensor in wanted.tensors.items()
    )
