"""The vectors of the Rust client are what this release makes: see `program_vectors`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tacita import api
from tacita.texts.embed import tokenize
from tacita.two_party.protocol import public_part

vectors = pytest.importorskip("program_vectors")


def read(name: str) -> Any:
    return json.loads((vectors.FOLDER / f"{name}.json").read_text())


@pytest.mark.parametrize("name", vectors.CASES)
def test_a_stored_program_is_the_one_of_its_plan(name: str) -> None:
    vector = read(name)
    made = vectors.vector_of(name)
    answers, stored = ([text.pop("answer") for text in v["texts"]] for v in (made, vector))
    assert made == vector
    np.testing.assert_allclose(answers, stored, rtol=0, atol=1e-12)  # floats of another processor's kernels
    part = public_part.decode(bytes.fromhex(vector["part"]))
    program = part.plan
    linear = [step for step in program.steps if step.op == "linear"]
    assert [step.parameters["outputs"] for step in linear] == [len(m["bias"]) for m in vector["maps"]]
    assert sum(step.op == "norm" for step in program.steps) == len(vector["norms"])
    for asked in vector["texts"]:
        assert tokenize(part.front, asked["text"])[0] == asked["ids"]


@pytest.mark.parametrize(("name", "model"), vectors.TOKENIZERS.items())
def test_stored_tokens_are_those_of_the_library(name: str, model: str) -> None:
    assert read(name.removesuffix(".json")) == vectors.tokens(model)


def test_stored_turns_are_those_of_scaled_angles() -> None:
    assert read("turns") == vectors.turns()


def test_stored_tiles_are_those_of_the_program() -> None:
    assert read("tiles-of") == json.loads(json.dumps(vectors.parts()))
    program = public_part.decode(bytes.fromhex(read("tiles")["part"])).plan
    cuts = [step.parameters for step in program.steps if step.op == "tiles"]
    assert [(cut["back"], cut["rows"]) for cut in cuts] == [(None, 4), (2, 4)]


def test_the_default_model_is_read_without_the_library() -> None:
    """The kinds of normaliser, cutter and template that `crates/wasm` knows."""
    tokenizer = api.load().tokenizer
    assert tokenizer is not None
    data = json.loads(tokenizer.to_str())
    assert data["normalizer"]["type"] == "BertNormalizer"
    assert data["pre_tokenizer"]["type"] == "BertPreTokenizer"
    assert (data["model"]["type"], data["post_processor"]["type"]) == ("WordPiece", "TemplateProcessing")
