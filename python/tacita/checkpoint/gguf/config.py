"""What a GGUF file says of its model -> the fields that config.json of the same model holds, which the family
then checks (`models.llama.read`). A field of the architecture that is not known here is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacita.checkpoint.fields import Fields
from tacita.checkpoint.gguf.weights import GgufFile
from tacita.errors import CheckpointError

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
NAMES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.dimension_count": "head_dim",
    "vocab_size": "vocab_size",
}
UNSCALED = {"rope.scaling.type": "none"}  # the only value that changes nothing
TOKENS, END = "tokenizer.ggml.tokens", "tokenizer.ggml.eos_token_id"


def fields_of(file: GgufFile) -> Fields:
    """As `checkpoint.fields` reads them. Errors: CheckpointError naming the file and the field."""
    said, where = file.header.fields, file.path
    arch = said.get("general.architecture")
    if not isinstance(arch, str) or arch not in ARCHITECTURES:
        raise _refused(where, "general.architecture", arch, ", ".join(ARCHITECTURES))
    found: dict[str, Any] = {"architectures": [ARCHITECTURES[arch]], "model_type": arch, "hidden_act": "silu"}
    for name, value in _own(said, arch).items():
        if name in UNSCALED and value == UNSCALED[name]:
            continue
        theirs = NAMES.get(name, "")
        if not theirs or found.get(theirs, value) != value:
            raise _refused(where, f"{arch}.{name}", value, f"read are {', '.join(NAMES)}")
        found[theirs] = value
    words = said.get(TOKENS)
    found.setdefault("vocab_size", len(words) if isinstance(words, list) else None)
    found |= {"tie_word_embeddings": "lm_head.weight" not in file.names, "eos_token_id": said.get(END)}
    found["attention_bias"] = arch == "llama" and "model.layers.0.self_attn.q_proj.bias" in file.names
    found["use_sliding_window"] = "sliding_window" in found
    return Fields(where, found)


def _own(said: Mapping[str, Any], arch: str) -> dict[str, Any]:
    """Fields of the architecture, without its name."""
    return {name.removeprefix(f"{arch}."): v for name, v in said.items() if name.startswith(f"{arch}.")}


def _refused(path: Path, field: str, value: object, supported: str) -> CheckpointError:
    return CheckpointError(f"{path}: {field} is {value!r:.80}", hint=f"supported: {supported}")
