"""Folders that cannot be computed are refused by their config.json alone: whether a file of weights is
missing or unreadable changes nothing of the error, which says what to do instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_families import DATA

from tacita.checkpoint import load
from tacita.errors import CheckpointError

QUANTISED = {"quant_method": "bitsandbytes", "load_in_8bit": True}
# what it is (docs/families.md says it in words) -> folder, changes, what the error says, what its hint says
FOLDERS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "deberta": (
        "bert-class",
        {"architectures": ["DebertaV2ForSequenceClassification"], "model_type": "deberta-v2"},
        "architecture 'DebertaV2ForSequenceClassification'",
        "take a BERT, RoBERTa",
    ),
    "decoder": (
        "bert-class",
        {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox"},
        "architecture 'GPTNeoXForCausalLM'",
        "llama",
    ),
    "gemma 2": (
        "gemma-next",
        {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2"},
        "architecture 'Gemma2ForCausalLM'",
        "soft caps",
    ),
    "decoding bert": ("bert-words", {"is_decoder": True}, "is_decoder is True", "only False"),
    "t5": (
        "bert-class",
        {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"},
        "architecture 'T5ForConditionalGeneration'",
        "supported: bert",
    ),
    "dinov2 classifier": (
        "dinov2-model",
        {"architectures": ["Dinov2ForImageClassification"]},
        "architecture 'Dinov2ForImageClassification'",
        "Dinov2Model",
    ),
    "dinov2 swiglu": ("dinov2-model", {"use_swiglu_ffn": True}, "use_swiglu_ffn is True", "only False"),
    "quantised": ("bert-class", {"quantization_config": QUANTISED}, "quantization_config is", "precision"),
    "activation": ("roberta-class", {"hidden_act": "mish"}, "hidden_act is 'mish'", "gelu_new"),
    "problem": ("bert-class", {"problem_type": "ranking"}, "problem_type is 'ranking'", "regression"),
    "relative key": (
        "bert-class",
        {"position_embedding_type": "relative_key"},
        "position_embedding_type is 'relative_key'",
        "only 'absolute'",
    ),
    "albert groups": ("albert-class", {"num_hidden_groups": 2}, "num_hidden_groups is 2", "only 1"),
    "masked words": ("bert-words", {"vocab_size": 30522}, "scores of 30522 words", "--pooling cls"),
    "choices": (
        "bert-class",
        {"architectures": ["BertForMultipleChoice"]},
        "architecture 'BertForMultipleChoice'",
        "BertForSequenceClassification",
    ),
}


@pytest.mark.parametrize("weights", ["absent", "unreadable", "a folder"])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_refused_before_a_file_of_weights_is_opened(
    name: str, weights: str, tmp_path: Path
) -> None:
    stored, changes, problem, instead = FOLDERS[name]
    fields = json.loads((DATA / stored / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(fields))
    if weights == "unreadable":
        (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    elif weights == "a folder":
        (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path)
    assert problem in str(caught.value) and str(tmp_path) in str(caught.value)
    assert instead in caught.value.hint


def test_the_same_folders_unchanged_come_to_their_weights(tmp_path: Path) -> None:
    """Or the test above would prove nothing."""
    for stored in {row[0] for row in FOLDERS.values()}:
        (tmp_path / "config.json").write_text((DATA / stored / "config.json").read_text())
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            load(tmp_path, pooling="cls" if stored.endswith("model") else None)
