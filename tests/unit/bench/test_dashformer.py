"""The iDASH 2024 DASHformer: converted to a folder, loaded, and equal to the published outputs and stages."""

from __future__ import annotations

import json
from pathlib import Path

import dashformer
import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from safetensors.numpy import load_file, save_file

from bench.models.dashformer import convert
from tacita.checkpoint import embed, load
from tacita.checkpoint.reference import reference
from tacita.errors import CheckpointError, InputError

needs_data = pytest.mark.skipif(not dashformer.available(), reason=dashformer.MISSING)
PUBLISHED = dashformer.DATA / "test_vector"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert(dashformer.DATA, tmp_path_factory.mktemp("dashformer"))


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[tuple[str, int]]:
    rows = (line.split("\t") for line in (folder / "sequences.tsv").read_text().splitlines()[1:])
    return [(text, int(label)) for text, label in rows]


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


@needs_data
def test_a_thousand_sequences_give_the_published_probabilities(folder, lines):
    model = load(folder)
    found = softmax(np.array([reference(model, *embed(model, text, 50)).logits for text, _ in lines]))
    published = np.loadtxt(PUBLISHED / "5_classifier.csv", delimiter=",")
    assert np.abs(found - published).max() < 1e-5
    labels = np.array([label for _, label in lines])
    assert np.mean(found.argmax(axis=1) == labels) == pytest.approx(0.89, abs=0.005)


@needs_data
def test_every_stage_of_the_first_sequence_is_the_published_one(folder, lines):
    model = load(folder)
    ids = model.tokenizer.encode(lines[0][0]).ids
    np.testing.assert_array_equal(np.array(ids), np.loadtxt(PUBLISHED / "0_input_1.csv"))
    hidden, mask = embed(model, lines[0][0], 50)
    trace = reference(model, hidden, mask).trace
    stages = {
        "1_embedding": model.tensors["embeddings.word_embeddings.weight"][ids],
        "2_positional_encoding": hidden,
        "3_transformer_block": trace["layer0.norm2.result"],
        "4_global_pool": trace["mean.result"],
    }
    for name, value in stages.items():
        text = (PUBLISHED / f"{name}.csv").read_text().replace("\n", ",")
        published = np.array([float(x) for x in text.split(",") if x.strip()])
        np.testing.assert_allclose(value.ravel(), published, atol=1e-5, err_msg=name)


@needs_data
def test_padding_to_a_power_of_two_changes_nothing(folder, lines):
    model = load(folder)
    exact, padded = (reference(model, *embed(model, lines[0][0], tokens)).logits for tokens in (50, 64))
    np.testing.assert_allclose(padded, exact, atol=1e-10)
    with pytest.raises(InputError, match="65 tokens, the model has 50 positions"):
        embed(model, lines[0][0], 65)
    with pytest.raises(InputError, match="the text has 51 tokens, the model 50 positions"):
        embed(model, "A" * 51, 64)


@needs_data
def test_letters_may_be_written_together_and_others_are_refused(folder, lines):
    model = load(folder)
    spaced, joined = lines[0][0], lines[0][0].replace(" ", "")
    np.testing.assert_array_equal(embed(model, spaced, 64)[0], embed(model, joined, 64)[0])
    for text in ("A Z L", "a l"):
        with pytest.raises(InputError, match="a word outside the vocabulary"):
            embed(model, text, 64)


def test_fields_of_models_without_types_or_embedding_norm(tmp_path):
    made = make_random_checkpoint(pooling="mean")
    write_folder(made, tmp_path)
    ordinary = load(tmp_path)
    fields = {"type_vocab_size": 0, "emb_layer_norm_before": False}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    kept = {n: t for n, t in load_file(tmp_path / "model.safetensors").items() if "LayerNorm" not in n[:30]}
    save_file({n: t for n, t in kept.items() if "token_type" not in n}, tmp_path / "model.safetensors")
    bare = load(tmp_path)
    assert (bare.config.pooling, bare.config.types, bare.config.embedding_norm) == ("mean", 0, False)
    assert bare.sha256 != ordinary.sha256
    ids = bare.tokenizer.encode("fine film").ids
    words, positions = (bare.tensors[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position"))
    np.testing.assert_array_equal(
        embed(bare, "fine film", 8)[0][: len(ids)], words[ids] + positions[: len(ids)]
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"emb_layer_norm_before": "no"}, "emb_layer_norm_before is 'no'"),
        ({"type_vocab_size": -1}, "type_vocab_size is -1"),
        ({"classifier_pooling": "max"}, "classifier_pooling is 'max'"),
    ],
)
def test_bad_values_of_those_fields_are_refused(fields, message, tmp_path):
    path = write_folder(make_random_checkpoint(), tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)
