"""Checkpoint folders: what loads, and every way in which one can be wrong; tokenising and embedding."""

from __future__ import annotations

import json

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from safetensors.numpy import load_file, save_file

from tacita.checkpoint import embed, load, pad_hidden, weights
from tacita.checkpoint.reference import reference
from tacita.errors import CheckpointError, InputError
from tacita.models import fields as files_module
from tacita.models.registry import tensor_shapes
from tacita.texts.embed import tokenize


@pytest.fixture
def folder(tmp_path):
    return write_folder(make_random_checkpoint(), tmp_path / "model")


def edit_config(folder, **changes):
    path = folder / "config.json"
    data = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}))


def edit_tensor(folder, name, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    changed = change(tensors.pop(name))
    save_file(tensors if changed is None else tensors | {name: changed}, path)


@pytest.mark.parametrize("prefix", ["bert.", ""])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_round_trip_with_either_prefix_and_any_float(tmp_path, prefix, dtype):
    made = make_random_checkpoint()
    read = load(write_folder(made, tmp_path, prefix=prefix, dtype=dtype))
    assert read.config == made.config
    for name, tensor in made.tensors.items():
        np.testing.assert_array_equal(read.tensors[name], tensor.astype(dtype).astype(np.float64))
    assert (read.sha256 == made.sha256) == (dtype is np.float64)


def write_bfloat16(tensors, path):
    """The safetensors layout by hand: 8-byte header length, JSON header, data."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        half = (np.ascontiguousarray(tensor, dtype="<f4").view("<u4") >> 16).astype("<u2").tobytes()
        offsets = [len(data), len(data) + len(half)]
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": offsets}
        data += half
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_bfloat16_and_old_layer_norm_names(folder):
    made = make_random_checkpoint()
    old = {
        n.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): t
        for n, t in made.tensors.items()
    }
    write_bfloat16(old, folder / "model.safetensors")
    read = load(folder)
    for name, tensor in made.tensors.items():
        np.testing.assert_allclose(read.tensors[name], tensor, rtol=2**-7)


def test_tensors_are_read_only(folder):
    tensor = np.asarray(load(folder).tensors["classifier.bias"])
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 1.0


def test_relu_and_hidden_state_models(tmp_path):
    made = make_random_checkpoint(activation="relu")
    write_folder(made, tmp_path)
    assert load(tmp_path).config.activation == "relu"
    (tmp_path / "tokenizer.json").unlink()
    bare = load(tmp_path, embeddings=False)
    assert not any(name.startswith("embeddings") for name in bare.tensors)
    with pytest.raises(CheckpointError, match="no tokenizer"):
        embed(bare, "fine", 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "quick_gelu"}, "hidden_act is 'quick_gelu'"),
        ({"architectures": ["OPTForCausalLM"]}, "architecture 'OPTForCausalLM'"),
        ({"architectures": None, "model_type": "gpt2"}, "model_type 'gpt2'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"num_hidden_layers": 49}, "num_hidden_layers is 49"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"hidden_size": None}, "hidden_size is None"),
        ({"num_attention_heads": 3}, "hidden_size 16 is not a multiple of num_attention_heads 3"),
        ({"max_position_embeddings": 1 << 21}, "max_position_embeddings is 2097152"),
        ({"max_position_embeddings": 1024}, r"has shape \(64, 16\), the configuration says \(1024, 16\)"),
        ({"layer_norm_eps": "1e-12"}, "layer_norm_eps is '1e-12'"),
        ({"id2label": {"0": "no", "2": "yes"}}, "id2label has keys"),
        ({"intermediate_size": 64}, r"has shape \(32, 16\), the configuration says \(64, 16\)"),
        ({"num_hidden_layers": 3}, r"16 tensors missing, first encoder\.layer\.2\."),
        ({"vocab_size": 16}, "token ids reach 31, vocab_size is 16|has shape"),
    ],
)
def test_configurations_that_are_refused(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises(CheckpointError, match=message) as caught:
        load(folder)
    assert caught.value.hint


QUERY = "bert.encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: None, "1 tensors missing, first encoder.layer.1.attention.self.query.weight"),
        (lambda t: t[:, :8].copy(), r"query.weight has shape \(16, 8\), the configuration says \(16, 16\)"),
        (lambda t: np.where(t == t[3, 3], np.nan, t), "query.weight holds NaN or infinity"),
        (lambda t: np.where(t == t[3, 3], np.inf, t), "query.weight holds NaN or infinity"),
        (lambda t: t.astype(np.int64), "query.weight has type I64"),
    ],
    ids=["missing", "misshapen", "nan", "inf", "integer"],
)
def test_tensors_that_are_refused(folder, change, message):
    edit_tensor(folder, QUERY, change)
    with pytest.raises(CheckpointError, match=message) as caught:
        load(folder)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["absent", "empty", "truncated", "garbage"])
def test_damaged_files_are_refused(folder, name, damage):
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if damage != "absent":
        path.write_bytes(
            {"empty": b"", "truncated": content[: len(content) * 2 // 3], "garbage": b"\xff" * 99}[damage]
        )
    with pytest.raises(CheckpointError, match=name) as caught:
        load(folder)
    assert caught.value.hint


def test_a_pointer_and_a_folder_of_onnx_are_named(folder):
    (folder / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    with pytest.raises(CheckpointError, match="pointer of Git LFS") as caught:
        load(folder)
    assert caught.value.hint == "git lfs pull"
    (folder / "config.json").rename(folder / "model.onnx")
    with pytest.raises(CheckpointError, match=r"config\.json: no such file") as caught:
        load(folder)
    assert "model.onnx is ONNX" in caught.value.hint


def test_files_over_their_cap_and_folders_that_are_not(folder, monkeypatch):
    monkeypatch.setattr(weights, "MAX_WEIGHT_BYTES", 1000)
    with pytest.raises(CheckpointError, match=r"allowed are 1\.\.1000"):
        load(folder)
    monkeypatch.undo()
    (folder / "config.json").write_text(" " * (files_module.MAX_JSON_BYTES + 1))
    with pytest.raises(CheckpointError, match="bytes, allowed are"):
        load(folder)
    with pytest.raises(CheckpointError, match="is not a folder"):
        load(folder / "config.json")
    (folder / "config.json").write_text("[1, 2]")
    with pytest.raises(CheckpointError, match="holds a list, not an object"):
        load(folder)


def test_embedding_is_berts(folder):
    checkpoint = load(folder)
    ids, types = tokenize(checkpoint, ("a fine film", "never boring"))
    vocabulary = checkpoint.tokenizer.get_vocab()
    assert ids[0] == vocabulary["[CLS]"]
    assert types == [0] * 5 + [1] * 3
    hidden, mask = embed(checkpoint, ("a fine film", "never boring"), 16)
    t = checkpoint.tensors
    row = t["embeddings.word_embeddings.weight"][ids[6]] + t["embeddings.position_embeddings.weight"][6]
    row = row + t["embeddings.token_type_embeddings.weight"][1]
    row = (row - row.mean()) / np.sqrt(row.var() + 1e-12)
    expected = row * t["embeddings.LayerNorm.weight"] + t["embeddings.LayerNorm.bias"]
    np.testing.assert_allclose(hidden[6], expected, atol=1e-12)
    assert mask.tolist() == [1.0] * 8 + [0.0] * 8
    np.testing.assert_array_equal(hidden[8:], np.repeat(hidden[:1], 8, axis=0))
    assert reference(checkpoint, hidden, mask).logits.shape == (2,)


@pytest.mark.parametrize("text", ["", "   \n\t", ("fine", " "), "\u200b"])
def test_empty_text_is_refused(folder, text):
    with pytest.raises(InputError, match=r"empty|no token"):
        embed(load(folder), text, 16)


def test_text_and_plan_limits(folder):
    checkpoint = load(folder)
    assert embed(checkpoint, "fine " * 14, 16)[1].sum() == 16
    with pytest.raises(InputError, match="the text has 17 tokens, the plan 16"):
        embed(checkpoint, "fine " * 15, 16)
    with pytest.raises(InputError, match="128 tokens, the model has 64 positions"):
        embed(checkpoint, "fine", 128)


def test_given_hidden_states_are_checked():
    hidden, mask = pad_hidden(np.ones((3, 4)), 8)
    assert hidden.shape == (8, 4)
    assert mask.sum() == 3
    for bad in (np.ones(4), np.ones((9, 4)), np.ones((0, 4))):
        with pytest.raises(InputError, match="for 8 tokens"):
            pad_hidden(bad, 8)
    with pytest.raises(InputError, match="NaN"):
        pad_hidden(np.full((3, 4), np.nan), 8)


def test_shapes_name_every_tensor_once():
    config = make_random_checkpoint(layers=3).config
    assert len(tensor_shapes(config)) == 5 + 16 * 3 + 2 + 2


def test_a_cross_encoder_has_one_module(tmp_path):
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    folder = write_folder(make_random_checkpoint(labels=("score",)), tmp_path)
    (folder / "modules.json").write_text(json.dumps([module]))
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps({"model_type": "CrossEncoder", "default_prompt_name": None}))
    assert (load(folder).config.pooling, load(folder).config.problem) == ("pooler", "regression")
    settings.write_text(json.dumps({"default_prompt_name": "query"}))
    with pytest.raises(CheckpointError, match="default_prompt_name is 'query'"):
        load(folder)
