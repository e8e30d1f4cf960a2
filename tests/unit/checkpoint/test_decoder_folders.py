"""Folders of decoders: names and layouts of Hugging Face's files, and what is refused before weights are
read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_decoders import POSITIONS, WORDS, gpt2, llama

from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.config import read_config
from tacita.errors import CheckpointError

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 24,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "intermediate_size": 38,
    "vocab_size": 41,
    "max_position_embeddings": 64,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_layer": 2,
    "n_embd": 24,
    "n_head": 6,
    "n_inner": 38,
    "vocab_size": 41,
    "n_positions": 64,
    "activation_function": "gelu_new",
}


def config_of(place: Path, fields: dict[str, Any], **changes: Any) -> Any:
    (place / "config.json").write_text(json.dumps(fields | changes))
    return read_config(place, None, True, lambda: pytest.fail("weights were looked at"))


def written(
    model: Checkpoint, place: Path, fields: dict[str, Any], names: dict[str, str], prefix: str
) -> Path:
    """As the family's files are: no head where it is tied, GPT-2's matrices with inputs first."""
    tensors = {}
    for name, tensor in model.tensors.items():
        spelled = names.get(name, name)
        flipped = fields["model_type"] == "gpt2" and tensor.ndim == 2 and ".c_" in name
        inside = "" if name == "lm_head.weight" else prefix
        tensors[inside + spelled] = np.ascontiguousarray(tensor.T if flipped else tensor)
    if fields.get("tie_word_embeddings", fields["model_type"] == "gpt2"):
        del tensors["lm_head.weight"]
    save_file(tensors, place / "model.safetensors")
    (place / "config.json").write_text(json.dumps(fields))
    assert model.tokenizer is not None
    (place / "tokenizer.json").write_text(model.tokenizer.to_str())
    return place


@pytest.mark.parametrize("tied", [False, True])
def test_a_folder_of_llama(tmp_path: Path, tied: bool) -> None:
    model, fields = llama(), LLAMA | {"tie_word_embeddings": tied}
    found = load(written(model, tmp_path, fields, {WORDS: "embed_tokens.weight"}, "model."))
    head = "embeddings.word_embeddings.weight" if tied else "lm_head.weight"
    assert np.array_equal(found.tensors["lm_head.weight"], model.tensors[head])
    assert all(
        np.array_equal(found.tensors[name], model.tensors[name])
        for name in model.tensors
        if "head" not in name
    )
    assert found.config.task == "next" and found.config.outputs == 41 and found.config.tied == tied


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_a_folder_of_gpt2(tmp_path: Path, prefix: str) -> None:
    model = gpt2()
    names = {WORDS: "wte.weight", POSITIONS: "wpe.weight"}
    found = load(written(model, tmp_path, GPT2, names, prefix))
    assert np.array_equal(found.tensors["lm_head.weight"], model.tensors[WORDS])
    assert all(
        np.array_equal(found.tensors[name], model.tensors[name])
        for name in model.tensors
        if "head" not in name
    )


def test_a_head_that_is_not_tied_must_be_there(tmp_path: Path) -> None:
    fields = LLAMA | {"tie_word_embeddings": True}
    written(llama(), tmp_path, fields, {WORDS: "embed_tokens.weight"}, "model.")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    with pytest.raises(CheckpointError, match=r"1 tensors missing, first lm_head.weight"):
        load(tmp_path)


def test_relatives_of_llama(tmp_path: Path) -> None:
    qwen = config_of(tmp_path, LLAMA, architectures=["Qwen2ForCausalLM"], model_type="qwen2")
    assert qwen.biases == (True, False, False) and qwen.shared == 2
    both = config_of(tmp_path, LLAMA, attention_bias=True, mlp_bias=True, num_key_value_heads=None)
    assert both.biases == (True, True, True) and both.shared == 1
    mistral = {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}
    assert config_of(tmp_path, LLAMA, **mistral, sliding_window=40).positions == 40
    assert config_of(tmp_path, LLAMA, **mistral, sliding_window=None).positions == 64
    unused = {"sliding_window": 8, "use_sliding_window": False}
    assert config_of(tmp_path, LLAMA, model_type="qwen2", **unused).positions == 64
    newer = {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}
    fields = {name: value for name, value in LLAMA.items() if name != "rope_theta"}
    assert config_of(tmp_path, fields, rope_parameters=newer["rope_parameters"]).base == 50.0


@pytest.mark.parametrize(
    ("fields", "changes", "message"),
    [
        (LLAMA, {"num_key_value_heads": 4}, "num_key_value_heads is 4"),
        (LLAMA, {"num_key_value_heads": 7}, "num_key_value_heads is 7"),
        (LLAMA, {"head_dim": 8}, "head_dim is 8"),
        (LLAMA, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rope_scaling is"),
        (LLAMA, {"rope_parameters": {"rope_type": "yarn"}}, "rope_type is 'yarn'"),
        (LLAMA, {"rope_theta": 0.0}, "rope_theta is 0.0"),
        (LLAMA, {"hidden_act": "mish"}, "hidden_act is 'mish'"),
        (LLAMA, {"sliding_window": 0, "model_type": "mistral"}, "sliding_window is 0"),
        (LLAMA, {"layer_types": ["sliding_attention", "full_attention"]}, "layer_types is"),
        (LLAMA, {"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'"),
        (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
        (LLAMA, {"model_type": "gemma"}, "model_type is 'gemma'"),
        (LLAMA, {"quantization_config": {"bits": 4}}, "quantization_config is"),
        (LLAMA, {"architectures": ["LlamaForSequenceClassification"]}, "architecture 'LlamaForSeq"),
        (LLAMA, {"architectures": None}, "model_type 'llama'"),
        (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
        (GPT2, {"scale_attn_weights": False}, "scale_attn_weights is False"),
        (GPT2, {"add_cross_attention": True}, "add_cross_attention is True"),
        (GPT2, {"n_head": 5}, "n_embd 24 is not a multiple of n_head 5"),
        (GPT2, {"activation_function": "swish2"}, "activation_function is 'swish2'"),
    ],
)
def test_refused_before_the_weights_are_read(
    tmp_path: Path, fields: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        config_of(tmp_path, fields, **changes)
    assert caught.value.hint


def test_a_decoder_is_not_pooled(tmp_path: Path) -> None:
    config_of(tmp_path, LLAMA)
    with pytest.raises(CheckpointError, match="pooling 'mean', the model answers with the next token"):
        read_config(tmp_path, "mean", True, list)
