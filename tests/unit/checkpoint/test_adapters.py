"""LoRA adapters, merged as a model is loaded: what peft and transformers answer with them, and folders that
are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from test_decoder_folders import GPT2, written
from test_families import answer_of, folder_of
from tiny_decoders import POSITIONS, WORDS, gpt2

from tacita.checkpoint import load
from tacita.errors import CheckpointError
from tacita.models.registry import nodes

DATA = Path(__file__).parents[2] / "vectors" / "adapters"
NAMES = sorted(folder.name for folder in DATA.iterdir())
SINGLE = 1e-5  # what decoders compute in single precision there
QUERY = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"


def adapter(name: str, place: Path, **changes: Any) -> Path:
    """A copy of an adapter beside one of its base, with changed fields."""
    folder = place / f"adapter {name}"
    shutil.copytree(DATA / name, folder)
    fields = json.loads((folder / "adapter_config.json").read_text())
    base = folder_of(fields["base_model_name_or_path"], place)
    fields |= {"base_model_name_or_path": str(base), **changes}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    return folder


def test_an_adapter_of_square_matrices_says_how_they_lie(tmp_path: Path) -> None:
    """A product of the wrong orientation would have the right shape."""
    base = tmp_path / "base"
    base.mkdir()
    written(gpt2(), base, GPT2, {WORDS: "wte.weight", POSITIONS: "wpe.weight"}, "transformer.")
    folder, name = tmp_path / "adapter", "transformer.h.0.attn.c_proj"
    folder.mkdir()
    rng = np.random.default_rng(0)
    parts = {"A": rng.normal(size=(2, 24)), "B": rng.normal(size=(24, 2))}
    save_file(
        {f"base_model.model.{name}.lora_{part}.weight": each for part, each in parts.items()},
        folder / "adapter_model.safetensors",
    )
    fields = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "base_model_name_or_path": str(base)}
    (folder / "adapter_config.json").write_text(json.dumps(fields | {"fan_in_fan_out": True}))
    tensor = "h.0.attn.c_proj.weight"
    added = load(folder).tensors[tensor] - load(base).tensors[tensor]
    assert np.allclose(added, parts["B"] @ parts["A"])
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    with pytest.raises(CheckpointError, match="fan_in_fan_out is None"):
        load(folder)


def test_an_adapter_beside_a_model_is_refused(tmp_path: Path) -> None:
    """transformers loads the base that the adapter names, and not the model."""
    folder = folder_of("qwen3-next", tmp_path)
    shutil.copy(DATA / "lora-qwen3" / "adapter_config.json", folder)
    with pytest.raises(CheckpointError, match=r"an adapter beside config\.json"):
        load(folder)


def test_a_table_that_is_the_last_map_too_is_not_replaced(tmp_path: Path) -> None:
    """An adapter replaces one of both, and the other stays as it was."""
    base = tmp_path / "base"
    base.mkdir()
    model = gpt2()
    written(model, base, GPT2, {WORDS: "wte.weight", POSITIONS: "wpe.weight"}, "transformer.")
    folder, fields = tmp_path / "adapter", {"peft_type": "LORA", "modules_to_save": ["wte", "ln_f"]}
    folder.mkdir()
    fields |= {"base_model_name_or_path": str(base), "fan_in_fan_out": True}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    name, file = "base_model.model.transformer.{}.weight", folder / "adapter_model.safetensors"
    save_file({name.format("ln_f"): np.full(24, 3.0)}, file)
    assert (load(folder).tensors["ln_f.weight"] == np.full(24, 3.0)).all()
    save_file({name.format("wte"): np.asarray(model.tensors[WORDS])}, file)
    with pytest.raises(CheckpointError, match=r"transformer\.wte\.weight replaces one of several"):
        load(folder)


def with_tensors(folder: Path, **changes: np.ndarray | None) -> Path:
    file = folder / "adapter_model.safetensors"
    tensors = {**load_file(file), **{name: value for name, value in changes.items() if value is not None}}
    save_file({name: value for name, value in tensors.items() if changes.get(name, 0) is not None}, file)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_answers_as_peft_does(name: str, tmp_path: Path) -> None:
    folder = adapter(name, tmp_path)
    case = json.loads((folder / "expected.json").read_text())
    base = load(json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"])
    model = load(folder)
    wanted = np.array(case["answer"][""])
    assert np.abs(answer_of(model, case) - wanted).max() < SINGLE
    assert np.abs(answer_of(base, case) - wanted).max() > 0.1
    assert model.name == folder.name and model.sha256 != base.sha256
    assert (model.config, nodes(model.config)) == (
        base.config,
        nodes(base.config),
    )  # so the keys are the same


def test_a_merge_by_hand(tmp_path: Path) -> None:
    folder = adapter("lora-qwen3", tmp_path)
    a, b = (load_file(folder / "adapter_model.safetensors")[QUERY.format(part)] for part in "AB")
    name = "layers.0.self_attn.q_proj.weight"
    base = load(json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"])
    merged = load(folder).tensors
    wanted = base.tensors[name] + 2.0 * b.astype(np.float64) @ a.astype(np.float64)  # 6 / 3
    assert np.abs(merged[name] - wanted).max() < 1e-14
    assert np.array_equal(
        merged["layers.0.self_attn.o_proj.weight"], base.tensors["layers.0.self_attn.o_proj.weight"]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA'"),
        ({"peft_type": None}, "peft_type is None"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"use_dora": True}, "use_dora is True"),
        ({"lora_bias": True}, "lora_bias is True"),
        ({"layer_replication": [[0, 1]]}, "layer_replication is"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'"),
        ({"something_new": 3}, "something_new is 3"),
        ({"base_model_name_or_path": 7}, "base_model_name_or_path is 7"),
        ({"base_model_name_or_path": "absent"}, "absent is not a folder"),
        ({"revision": 5}, "revision is 5"),
        ({"r": 4}, "of rank 4"),
        ({"r": "3"}, "r is '3'"),
        ({"lora_alpha": float("nan")}, "lora_alpha is nan"),
        ({"lora_alpha": -1}, "lora_alpha is -1"),
        ({"alpha_pattern": {"(a+)+": 2}}, "alpha_pattern is"),
        ({"alpha_pattern": {"k_proj": "5"}}, "k_proj is '5'"),
        ({"rank_pattern": [2]}, "rank_pattern is"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out is True"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        load(adapter("lora-qwen3", tmp_path, **changes))
    assert caught.value.hint


HALF = np.zeros((3, 12), np.float16)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({QUERY.format("A"): None}, "one matrix for model.layers.0.self_attn.q_proj.weight"),
        ({QUERY.format("A"): HALF[:, :5]}, "of rank 3"),
        ({QUERY.format("A"): HALF[0]}, "of rank 3"),
        ({QUERY.format("A"): np.full_like(HALF, np.inf)}, "not finite"),
        ({QUERY.format("A").replace("lora_A", "lora_magnitude"): HALF}, "another kind"),
        ({QUERY.format("A").replace("q_proj.lora_A", "q_proj"): HALF}, "another kind"),
        ({QUERY.format(part).replace("layers.0", "layers.9"): HALF for part in "AB"}, "none that the base"),
    ],
)
def test_tensors_that_are_refused(
    tmp_path: Path, tensors: dict[str, np.ndarray | None], message: str
) -> None:
    folder = with_tensors(adapter("lora-qwen3", tmp_path), **tensors)
    with pytest.raises(CheckpointError, match=message):
        load(folder)
