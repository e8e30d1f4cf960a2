"""A small encoder with every option that newer ones have: rotary and relative positions, a window, normalised
queries and keys, norms without mean, gates, an answer for every token.

`test_two_party_newer.py` runs it between two parties; the house does not know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from random_checkpoint import make_tokenizer

from tacita.blocks.base import EVERYWHERE, Attention, Dense, FeedForward, Norm, Relative, Rotary
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models import registry
from tacita.models.config import Names
from tacita.models.layers import Family

NAME = "newer"


@dataclass(frozen=True)
class Config:
    """pooling: "mean", or "none" for an answer for every token."""

    layers: int = 2
    hidden: int = 16
    heads: int = 2
    intermediate: int = 24
    vocab: int = 32
    positions: int = 64
    types: int = 0
    activation: str = "silu"
    pooling: str = "mean"
    norm_eps: float = 1e-5
    labels: tuple[str, ...] = ("no", "yes")
    embeddings: bool = True
    embedding_norm: bool = False
    normalise: bool = False
    first_token: bool = False
    last_token: bool = False
    backwards: bool = False
    gated: bool = True
    base: float = 10_000.0
    window: int = 2
    problem: str = "single_label"
    first_position: int = 0
    position_table: bool = False
    embedding_size: int = 0
    embedding_beta: bool = True
    image: None = None

    @property
    def every_token(self) -> bool:
        return self.pooling == "none"

    @property
    def task(self) -> str:
        return "tokens" if self.every_token else "text"

    @property
    def outputs(self) -> int:
        return len(self.labels)


def forward(b: Any, m: Config, x: Any, *, all_rows: bool = False) -> Any:
    """The first layer turns its queries and keys, the second has a table and a window."""
    for i in range(m.layers):
        at = f"h{i}"
        seen = b.norm(x, _norm(m, f"{at}.ln1"), f"{at}.norm1")
        x = b.add(x, b.attention(seen, attention(m, i), f"{at}.attention"))
        y = b.norm(x, _norm(m, f"{at}.ln2"), f"{at}.norm2")
        x = b.add(x, b.feed_forward(y, feed_forward(m, at), f"{at}.mlp"))
    x = b.norm(x, _norm(m, "last"), "last")
    x = b.mean(x, "mean") if m.pooling == "mean" else x
    return b.answer(b.linear(x, Dense("classifier", m.hidden, m.outputs), "classifier"))


def attention(m: Config, i: int) -> Attention:
    at, d, size = f"h{i}", m.hidden, m.hidden // m.heads
    query, key, value = (Dense(f"{at}.qkv", d, d, bias=False, part=(k, 3)) for k in range(3))
    first = i % 2 == 0
    heads = tuple(
        Norm(f"{at}.{n}", size, m.norm_eps, centred=False, gamma=first, beta=False) for n in ("qn", "kn")
    )
    return Attention(
        m.heads,
        query,
        key,
        value,
        Dense(f"{at}.o", d, d, bias=False),
        normed=(heads[0], heads[1]),
        rotary=Rotary(m.base) if first else None,
        relative=None if first else Relative(f"{at}.table", 8, 6),
        reach=EVERYWHERE if first else (m.window, m.window),
    )


def feed_forward(m: Config, at: str) -> FeedForward:
    gate, wide = (
        Dense(f"{at}.up", m.hidden, m.intermediate, bias=False, part=(k, 1 + m.gated)) for k in (0, m.gated)
    )
    narrow = Dense(f"{at}.down", m.intermediate, m.hidden, gain=f"{at}.gain")
    return FeedForward(wide, m.activation, narrow, gate if m.gated else None)


def front(b: Any, m: Config, words: Any) -> Any:
    return b.norm(words, _norm(m, "embeddings.ln"), "embedding.norm")


def _norm(m: Config, name: str) -> Norm:
    return Norm(name, m.hidden, m.norm_eps, centred=False, beta=False)


FAMILY = Family(
    Config,
    {"activation": ("silu", "gelu_tanh", "relu2", "gelu", "sine"), "pooling": ("mean", "none")},
    forward,
    Config,
    lambda m: Names(()),
    check=lambda m: None,
    front=front,
)


@contextmanager
def known() -> Iterator[None]:
    """The house knows the family inside."""
    registry.FAMILIES[NAME] = FAMILY
    try:
        yield
    finally:
        del registry.FAMILIES[NAME]


def checkpoint(**options: Any) -> Checkpoint:
    """Random weights; gammas and gains about one."""
    rng, config = np.random.default_rng(4), Config(**options)
    tensors = {}
    for name, shape in registry.tensor_shapes(config).items():
        near_one = len(shape) == 1 and ("weight" in name or "gain" in name)
        spread = 0.1 if near_one else 1.0 if "embeddings" in name else 1.0 / np.sqrt(shape[-1])
        tensors[name] = rng.normal(1.0 if near_one else 0.0, spread, shape)
    return from_tensors(config, tensors, make_tokenizer(config.vocab), name="newer")
