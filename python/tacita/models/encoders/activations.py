"""Hugging Face's names of activations -> ours (`blocks.floats.FUNCTIONS`)."""

from __future__ import annotations

BY_NAME = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
}
KNOWN = tuple(dict.fromkeys(BY_NAME.values()))
