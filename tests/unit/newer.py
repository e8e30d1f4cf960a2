"""An encoder as newer ones are: root mean squares before its blocks and of queries and keys, rotary
positions, windows in every other layer, gates, no biases. The house does not know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import norms_first
import numpy as np
from random_checkpoint import make_tokenizer

from tacita.blocks.base import EVERYWHERE, Attention, Dense, FeedForward, Norm, Positions, Rotary
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models import registry
from tacita.models.config import Names
from tacita.models.layers import Family


@dataclass(frozen=True)
class Config(norms_first.Config):
    intermediate: int = 24
    activation: str = "silu"
    pooling: str = "cls"


def forward(b: Any, m: Config, x: Any, *, all_rows: bool = False) -> Any:
    for i in range(m.layers):
        at, d, last = f"h{i}", m.hidden, i == m.layers - 1
        rows = 1 if last and not all_rows else None
        query, key, value = (Dense(f"{at}.qkv", d, d, bias=False, part=(k, 3)) for k in range(3))
        reach = (3, 3) if i % 2 == 0 else EVERYWHERE
        output = Dense(f"{at}.o", d, d, bias=False)
        attention = Attention(
            m.heads, query, key, value, output, normed=per_head(m, at), rotary=Rotary(100.0), reach=reach
        )
        seen = b.norm(x, norm(m, f"{at}.ln1"), f"{at}.norm1")
        y = b.add(b.take(x, rows), b.attention(seen, attention, f"{at}.attention", rows))
        x = b.add(
            y, b.feed_forward(b.norm(y, norm(m, f"{at}.ln2"), f"{at}.norm2"), block(m, at), f"{at}.mlp")
        )
    x = b.take(b.norm(x, norm(m, "ln"), "norm"), 1)
    return b.answer(b.linear(x, Dense("classifier", m.hidden, m.outputs), "classifier"))


def block(m: Config, at: str) -> FeedForward:
    gate, wide = (Dense(f"{at}.up", m.hidden, m.intermediate, bias=False, part=(k, 2)) for k in range(2))
    return FeedForward(wide, m.activation, Dense(f"{at}.down", m.intermediate, m.hidden, bias=False), gate)


def per_head(m: Config, at: str) -> tuple[Norm, Norm]:
    """Of queries and of keys."""
    ours, theirs = (
        Norm(f"{at}.{name}_ln", m.hidden // m.heads, m.norm_eps, centred=False, beta=False) for name in "qk"
    )
    return ours, theirs


def norm(m: Config, name: str) -> Norm:
    return Norm(name, m.hidden, m.norm_eps, centred=False, beta=False)


def front(b: Any, m: Config, words: Any) -> Any:
    return b.positions(words, Positions("embeddings.position_embeddings.weight", None, m.hidden), "positions")


FAMILY = Family(
    Config, {"activation": ("silu",), "pooling": ("cls",)}, forward, Config, lambda m: Names(()), front=front
)


def model(config: Config | None = None) -> Checkpoint:
    """Random weights. Its family must be registered."""
    rng, config = np.random.default_rng(4), config or Config()
    shapes = registry.tensor_shapes(config)
    tensors = {name: rng.normal(0.0, 1.0 / np.sqrt(shape[-1]), shape) for name, shape in shapes.items()}
    for name in (n for n in tensors if "ln" in n):
        tensors[name] += 1.0
    return from_tensors(config, tensors, make_tokenizer(config.vocab), name="newer")
