"""Folders of decoders: names and layouts of Hugging Face's files, and what is refused before weights are
read."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from test_families import DATA as FAMILIES
from test_families import folder_of
from tiny_decoders import GPT2_FIELDS as GPT2
from tiny_decoders import LLAMA_FIELDS as LLAMA
from tiny_decoders import POSITIONS, WORDS, gpt2, llama

from tacita.checkpoint import Checkpoint, from_tensors, load
from tacita.checkpoint.config import read_config
from tacita.checkpoint.reference import reference
from tacita.errors import CheckpointError
from tacita.generation.sources import Floats, Integers
from tacita.models.registry import check
from tacita.planning.request import PlanRequest
from tacita.texts.embedding import Tensor, stored_tensor
from tacita.two_party.planning import make_two_party_plan

SLOWED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def config_of(place: Path, fields: dict[str, Any], **changes: Any) -> Any:
    (place / "config.json").write_text(json.dumps(fields | changes))
    return read_config(place, None, True, lambda: pytest.fail("weights were looked at"))


def written(
    model: Checkpoint,
    place: Path,
    fields: dict[str, Any],
    names: dict[str, str],
    prefix: str,
    save: Callable[[dict[str, Any], Path], None] = save_file,
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
    save(tensors, place / "model.safetensors")
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


def test_a_gpt2_whose_file_names_no_activation_has_its_own(tmp_path: Path) -> None:
    fields = {name: value for name, value in GPT2.items() if name != "activation_function"}
    assert config_of(tmp_path, fields) == config_of(tmp_path, GPT2)


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


def test_a_window_that_no_field_mentions(tmp_path: Path) -> None:
    """It is transformers' own, 4,096 tokens, where the kind of model has one."""
    long = LLAMA | {"max_position_embeddings": 8192}
    used = {"model_type": "qwen2", "use_sliding_window": True}
    cases: list[tuple[dict[str, Any], int]] = [
        ({"model_type": "mistral"}, 4096),
        ({"model_type": "mistral", "sliding_window": None}, 8192),
        ({"model_type": "mistral", "sliding_window": 5000}, 5000),
        (used, 4096),
        ({"model_type": "qwen2"}, 8192),
        ({}, 8192),
    ]
    for changes, positions in cases:
        assert config_of(tmp_path, long, **changes).positions == positions, changes
    fields = json.loads((FAMILIES / "phi3-next" / "config.json").read_text())
    fields |= {"max_position_embeddings": 8192, "sliding_window": 2047}
    assert config_of(tmp_path, fields).positions == 2047
    del fields["sliding_window"], fields["rms_norm_eps"]
    found = config_of(tmp_path, fields)
    assert (found.positions, found.norm_eps) == (8192, 1e-5)


def test_chats_end_as_their_generation_says(tmp_path: Path) -> None:
    assert config_of(tmp_path, LLAMA, eos_token_id=7).ends == (7,)
    beside = tmp_path / "generation_config.json"
    beside.write_text(json.dumps({"eos_token_id": [7, 9]}))
    assert config_of(tmp_path, LLAMA, eos_token_id=7).ends == (7, 9)
    assert config_of(tmp_path, GPT2).ends == (7, 9)
    beside.write_text(json.dumps({"temperature": 0.6}))
    assert config_of(tmp_path, LLAMA, eos_token_id=7).ends == (7,)
    beside.write_text(json.dumps({"eos_token_id": [7, -9]}))
    with pytest.raises(CheckpointError, match=r"generation_config.json: eos_token_id is \[7, -9\]"):
        config_of(tmp_path, LLAMA, eos_token_id=7)


def test_a_decoder_of_vectors_is_refused(tmp_path: Path) -> None:
    """Qwen3-Embedding is such a folder, and would be read as a model that writes."""
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"modules\.json: a decoder that gives vectors"):
        config_of(tmp_path, LLAMA)


def test_positions_that_are_slowed_down(tmp_path: Path) -> None:
    """Heads of 4 features have two angles: one radian a token, and 1000^(-1/2) of it. The first turns five
    times in 32 tokens and is left as it is; the second turns a sixth of a time."""
    for name in ("rope_scaling", "rope_parameters"):
        assert config_of(tmp_path, LLAMA, **{name: SLOWED}).scales == (1.0, 0.125)
    between = SLOWED | {"low_freq_factor": 5.0, "high_freq_factor": 6.0}
    share = 32 / (2.0 * np.pi) - 5.0  # a tenth of a turn above the lower end
    found = config_of(tmp_path, LLAMA, rope_scaling=between).scales
    assert found == pytest.approx((share + (1.0 - share) / 8.0, 0.125), abs=1e-15)
    assert config_of(tmp_path, LLAMA, rope_scaling={"type": "linear", "factor": 4.0}).scales == (0.25, 0.25)
    assert config_of(tmp_path, LLAMA, head_dim=4) == config_of(tmp_path, LLAMA)
    assert config_of(tmp_path, LLAMA, head_dim=6, rope_scaling=SLOWED).head_size == 6


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("phi3-partial", {"rope_parameters": {"partial_rotary_factor": 0.4}}, "partial_rotary_factor is 0.4"),
        ("phi3-partial", {"rope_parameters": {"partial_rotary_factor": 2.0}}, "partial_rotary_factor is 2.0"),
        ("phi3-partial", {"rope_scaling": {"type": "longrope"}, "rope_parameters": None}, "'longrope'"),
        ("gemma", {"hidden_act": "silu"}, "hidden_act is 'silu'"),
        ("gemma", {"hidden_activation": "gelu"}, "hidden_activation is 'gelu'"),
        ("gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention is True"),
        ("qwen3", {"rope_parameters": {"full_attention": {"rope_theta": 5.0}}}, "rope_parameters is"),
        ("qwen3", {"is_causal": False}, "is_causal is False"),
        ("qwen3", {"use_bidirectional_attention": True}, "use_bidirectional_attention is True"),
        ("gemma", {"num_key_value_heads": None}, "num_key_value_heads is None"),
        ("qwen3", {"num_key_value_heads": 3}, "num_key_value_heads is 3"),
        ("qwen3", {"model_type": "llama"}, "model_type is 'llama'"),
    ],
)
def test_relatives_are_refused_before_the_weights_are_read(
    tmp_path: Path, name: str, changes: dict[str, Any], message: str
) -> None:
    fields = json.loads((FAMILIES / f"{name}-next" / "config.json").read_text())
    with pytest.raises(CheckpointError, match=message):
        config_of(tmp_path, fields, **changes)


def test_fields_of_relatives_that_are_absent(tmp_path: Path) -> None:
    """They are then what transformers takes for them."""
    for name, size, activation in (("qwen3", 128, "silu"), ("gemma", 256, "gelu_tanh")):
        fields = json.loads((FAMILIES / f"{name}-next" / "config.json").read_text())
        config = config_of(tmp_path, {k: v for k, v in fields.items() if k != "head_dim"})
        assert (config.head_features, config.activation) == (size, activation)
    assert config_of(tmp_path, fields, hidden_act="gelu").activation == "gelu_tanh"


def test_a_matrix_of_other_rows_than_three_is_refused(tmp_path: Path) -> None:
    """Files of Phi-3 keep queries, keys and values in one."""
    folder = folder_of("phi3-next", tmp_path)
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.1.self_attn.qkv_proj.weight"
    save_file(tensors | {name: tensors[name][:24]}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"qkv_proj.weight has shape \(24, 24\), not 48 rows"):
        load(folder)


def test_heads_and_scales_out_of_range(tmp_path: Path) -> None:
    """A stranger's plan may have such heads."""
    config = config_of(tmp_path, LLAMA, rope_scaling=SLOWED)
    check(config)
    for wrong in ({"head_size": 5, "scales": ()}, {"head_size": 1 << 12, "scales": ()}, {"scales": (1.0,)}):
        with pytest.raises(CheckpointError, match="heads of"):
            check(replace(config, **wrong))
    for scale in (-0.1, 1.1, float("nan")):
        with pytest.raises(CheckpointError, match="2 scales of their angles"):
            check(replace(config, scales=(1.0, scale)))


@pytest.mark.parametrize(
    ("fields", "changes", "message"),
    [
        (LLAMA, {"num_key_value_heads": 4}, "num_key_value_heads is 4"),
        (LLAMA, {"num_key_value_heads": 7}, "num_key_value_heads is 7"),
        (LLAMA, {"head_dim": 0}, "head_dim is 0"),
        (LLAMA, {"head_dim": 1 << 20}, "head_dim is 1048576"),
        (LLAMA, {"head_dim": "4"}, "head_dim is '4'"),
        (LLAMA, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor is None"),
        (LLAMA, {"rope_scaling": SLOWED | {"low_freq_factor": 4.0}}, "high_freq_factor is 4.0"),
        (LLAMA, {"rope_scaling": SLOWED | {"factor": 0.5}}, "factor is 0.5"),
        (LLAMA, {"rope_scaling": SLOWED | {"factor": "8"}}, "factor is '8'"),
        (LLAMA, {"rope_scaling": SLOWED | {"original_max_position_embeddings": 0}}, "embeddings is 0"),
        (LLAMA, {"rope_scaling": [8.0]}, "rope_scaling is"),
        (LLAMA, {"rope_scaling": {"type": "linear"}}, "factor is None"),
        (LLAMA, {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "type is 'dynamic'"),
        (LLAMA, {"rope_scaling": SLOWED, "rope_parameters": SLOWED}, "rope_scaling is"),
        (LLAMA, {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5"),
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


# Large files are mapped, and their numbers converted where they are used.


def halves(tensors: dict[str, Any], path: Path) -> None:
    save_file({name: tensor.astype(np.float16) for name, tensor in tensors.items()}, path)


def upper_halves(tensors: dict[str, Any], path: Path) -> None:
    """Writes bfloat16, for which numpy has no type."""
    save_file({name: (t.astype("<f4").view("<u4") >> 16).astype("<u2") for name, t in tensors.items()}, path)
    data = path.read_bytes()
    length = 8 + int.from_bytes(data[:8], "little")
    head = data[8:length].replace(b'"U16"', b'"BF16"')
    path.write_bytes(len(head).to_bytes(8, "little") + head + data[length:])


FAMILY: dict[str, Any] = {
    "llama": (llama, LLAMA, {WORDS: "embed_tokens.weight"}, "model."),
    "gpt2": (gpt2, GPT2, {WORDS: "wte.weight", POSITIONS: "wpe.weight"}, ""),
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model is a large one."""
    monkeypatch.setattr("tacita.models.fields.MAPPED", 1)
    monkeypatch.setattr("tacita.checkpoint.weights.MOST_CACHED", 0)


def plain(model: Checkpoint) -> Checkpoint:
    """The same as arrays of float64."""
    tensors = {name: np.asarray(tensor) for name, tensor in model.tensors.items()}
    return from_tensors(model.config, tensors, model.tokenizer, name=model.name)


def mapped(tensor: Any) -> bool:
    base = stored_tensor(tensor).stored  # type: ignore[union-attr]
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


@pytest.mark.parametrize(("save", "kind"), [(halves, "f2"), (upper_halves, "u2"), (save_file, "f8")])
@pytest.mark.parametrize("family", FAMILY)
@pytest.mark.usefixtures("large")
def test_a_mapped_model_answers_as_its_floats_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, save: Any, kind: str
) -> None:
    """Calibrated, in floats and in the integers of two parties; never is more than a matrix converted."""
    make, *how = FAMILY[family]
    model = load(written(make(), tmp_path, *how, save))
    expected, largest = plain(model), 0
    take = Tensor.__getitem__

    def counted(tensor: Tensor, key: Any) -> Any:
        nonlocal largest
        largest = max(largest, (rows := take(tensor, key)).nbytes)
        return rows

    monkeypatch.setattr(Tensor, "__getitem__", counted)
    request = PlanRequest(tokens=12, texts=["a fine film", "the plot is dull"])
    plan = make_two_party_plan(model, request)
    assert plan == make_two_party_plan(expected, request) and model.sha256 == expected.sha256
    for source, floats in (
        (Floats(model), Floats(expected)),
        (Integers(model, plan), Integers(expected, plan)),
    ):
        for ids in ([3, 5, 7], [11]):
            assert np.array_equal(source.logits(ids)[0], floats.logits(ids)[0])
    assert 0 < largest <= 8 * max(tensor.size for tensor in model.tensors.values())
    for name, tensor in model.tensors.items():
        stored = stored_tensor(tensor)
        assert stored is not None and stored.stored.dtype == np.dtype(kind) and mapped(tensor), name
        assert stored._whole is None and tensor.shape == expected.tensors[name].shape


@pytest.mark.parametrize("save", [halves, upper_halves, save_file])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.usefixtures("large")
def test_a_mapped_file_is_checked_like_one_that_is_read(tmp_path: Path, save: Any, value: float) -> None:
    model = llama()
    spoilt = np.array(model.tensors["layers.1.mlp.up_proj.weight"])
    spoilt[30, 7] = value
    tensors = {**model.tensors, "layers.1.mlp.up_proj.weight": spoilt}
    place = written(replace(model, tensors=tensors), tmp_path, *FAMILY["llama"][1:], save)
    with pytest.raises(CheckpointError, match=r"up_proj.weight holds NaN or infinity"):
        load(place)
    path = place / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        load(place)


def test_floats_of_a_small_model_are_cached(tmp_path: Path) -> None:
    """It is read, so that its file may be written anew."""
    place = written(llama(), tmp_path, *FAMILY["llama"][1:], halves)
    model = load(place)
    tensor = model.tensors["layers.0.mlp.up_proj.weight"]
    before = np.array(tensor)
    assert not mapped(tensor) and np.asarray(tensor) is np.asarray(tensor)
    (place / "model.safetensors").write_bytes(b"")
    hidden = np.random.default_rng(1).normal(size=(3, 24))
    answer = reference(model, hidden, np.ones(3)).logits
    assert np.array_equal(answer, reference(plain(model), hidden, np.ones(3)).logits)
    assert np.array_equal(tensor, before) and np.array_equal(tensor + 1.0, before + 1.0)
