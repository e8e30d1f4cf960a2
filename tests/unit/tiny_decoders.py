"""Small decoders with random weights, and what they mean, written in numpy apart from the house: all heads'
keys and values repeated, the whole sequence at once, no cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from random_checkpoint import make_tokenizer

from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models.decoders import Gpt2Config, LlamaConfig
from tacita.models.registry import tensor_shapes

Array = np.ndarray
WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
LLAMA: dict[str, Any] = {
    "layers": 2,
    "hidden": 24,
    "heads": 6,
    "intermediate": 38,
    "vocab": 41,
    "positions": 64,
    "types": 0,
    "activation": "silu",
    "pooling": "last",
    "norm_eps": 1e-5,
    "labels": (),
    "embedding_norm": False,
    "position_table": False,
    "task": "next",
    "shared": 2,
    "base": 1000.0,
}
GPT2 = {name: value for name, value in LLAMA.items() if name not in ("shared", "base", "position_table")}
GPT2 |= {"activation": "gelu_tanh"}
# what config.json says of the same models, with two layers and 41 words
LLAMA_FIELDS = {
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
GPT2_FIELDS = {
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


def llama(seed: int = 0, **options: Any) -> Checkpoint:
    """Gammas about one, biases that count."""
    return _random(LlamaConfig(**LLAMA | options), seed)


def gpt2(seed: int = 0, **options: Any) -> Checkpoint:
    """As BERT's sizes are called."""
    return _random(Gpt2Config(**GPT2 | options), seed)


def _random(config: Any, seed: int) -> Checkpoint:
    rng, tensors = np.random.default_rng(seed), {}
    for name, shape in tensor_shapes(config).items():
        gamma = len(shape) == 1 and name.endswith("weight")
        spread = 0.2 if len(shape) == 1 else 1.0 / np.sqrt(shape[-1])
        tensors[name] = rng.normal(1.0 if gamma else 0.0, spread, shape)
    return from_tensors(config, tensors, make_tokenizer(config.vocab), name="tiny decoder")


def hidden_of(model: Checkpoint, ids: list[int]) -> Array:
    """(tokens, hidden): what the layers start from."""
    rows = model.tensors[WORDS][ids]
    return rows + model.tensors[POSITIONS][: len(ids)] if model.config.position_table else rows


def logits(model: Checkpoint, ids: list[int]) -> Array:
    """(tokens, vocab): of every token what comes next, by the reference of its family."""
    return (llama_logits if isinstance(model.config, LlamaConfig) else gpt2_logits)(model, ids)


def llama_logits(model: Checkpoint, ids: list[int]) -> Array:
    """See `logits`."""
    m, t = model.config, model.tensors
    x = t[WORDS][ids]
    for i in range(m.layers):
        at = f"layers.{i}."
        y = _rms(x, t[f"{at}input_layernorm.weight"], m.norm_eps)
        q, k, v = (_dense(t, f"{at}self_attn.{part}_proj", y) for part in "qkv")
        d = m.head_size or m.hidden // m.heads
        mixed = [
            _attended(
                _turned(q[:, h * d : (h + 1) * d], m.base, m.scales),
                _turned(k[:, h // m.shared * d : (h // m.shared + 1) * d], m.base, m.scales),
                v[:, h // m.shared * d : (h // m.shared + 1) * d],
            )
            for h in range(m.heads)
        ]
        x = x + _dense(t, f"{at}self_attn.o_proj", np.concatenate(mixed, axis=1))
        y = _rms(x, t[f"{at}post_attention_layernorm.weight"], m.norm_eps)
        gate, up = (_dense(t, f"{at}mlp.{part}_proj", y) for part in ("gate", "up"))
        x = x + _dense(t, f"{at}mlp.down_proj", gate / (1.0 + np.exp(-gate)) * up)
    return _rms(x, t["norm.weight"], m.norm_eps) @ t["lm_head.weight"].T


def gpt2_logits(model: Checkpoint, ids: list[int]) -> Array:
    """See `logits`."""
    m, t = model.config, model.tensors
    x = t[WORDS][ids] + t[POSITIONS][: len(ids)]
    for i in range(m.layers):
        at, d = f"h.{i}.", m.hidden // m.heads
        q, k, v = np.split(_dense(t, f"{at}attn.c_attn", _layer_norm(t, f"{at}ln_1", x)), 3, axis=1)
        parts = [[z[:, h * d : (h + 1) * d] for z in (q, k, v)] for h in range(m.heads)]
        mixed = np.concatenate([_attended(*part) for part in parts], axis=1)
        x = x + _dense(t, f"{at}attn.c_proj", mixed)
        y = _dense(t, f"{at}mlp.c_fc", _layer_norm(t, f"{at}ln_2", x))
        y = 0.5 * y * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (y + 0.044715 * y**3)))
        x = x + _dense(t, f"{at}mlp.c_proj", y)
    return _layer_norm(t, "ln_f", x) @ t["lm_head.weight"].T


def _attended(q: Array, k: Array, v: Array) -> Array:
    """One head, query by query over the keys up to its own."""
    rows = []
    for i, query in enumerate(q):
        scores = k[: i + 1] @ query / np.sqrt(q.shape[1])
        weights = np.exp(scores - scores.max())
        rows.append(weights @ v[: i + 1] / weights.sum())
    return np.array(rows)


def _turned(x: Array, base: float, scales: tuple[float, ...]) -> Array:
    """Each pair (i, i + d/2) as a complex number, turned."""
    half = x.shape[1] // 2
    angles = np.arange(len(x))[:, None] / base ** (np.arange(half) / half) * np.array(scales or (1.0,))
    turned = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=1)


def _rms(x: Array, gamma: Array, epsilon: float) -> Array:
    return gamma * x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + epsilon)


def _layer_norm(t: Any, name: str, x: Array) -> Array:
    x = x - x.mean(axis=1, keepdims=True)
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + 1e-5) * t[f"{name}.weight"] + t[f"{name}.bias"]


def _dense(t: Any, name: str, x: Array) -> Array:
    return x @ t[f"{name}.weight"].T + t.get(f"{name}.bias", 0.0)
