"""All that a new model takes: an encoder with norms before its blocks, learned positions, and a mean at the
end.

`integration/test_new_family.py` runs it; the house does not know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacita.blocks.base import Attention, Dense, FeedForward, Norm, Positions
from tacita.models.config import EncoderConfig, Names
from tacita.models.layers import Family


@dataclass(frozen=True)
class Config(EncoderConfig):
    layers: int = 2
    hidden: int = 16
    heads: int = 2
    intermediate: int = 32
    vocab: int = 32
    positions: int = 64
    types: int = 0
    activation: str = "gelu"
    pooling: str = "mean"
    norm_eps: float = 1e-6
    labels: tuple[str, ...] = ("no", "yes")
    embeddings: bool = True
    embedding_norm: bool = False
    normalise: bool = False


def forward(b: Any, m: Config, x: Any, *, all_rows: bool = False) -> Any:
    for i in range(m.layers):
        at, d = f"h{i}", m.hidden
        query, key, value, output = (Dense(f"{at}.{name}", d, d) for name in "qkvo")
        block = FeedForward(
            Dense(f"{at}.up", d, m.intermediate), m.activation, Dense(f"{at}.down", m.intermediate, d)
        )
        seen = b.norm(x, Norm(f"{at}.ln1", d, m.norm_eps), f"{at}.norm1")
        x = b.add(x, b.attention(seen, Attention(m.heads, query, key, value, output), f"{at}.attention"))
        x = b.add(
            x, b.feed_forward(b.norm(x, Norm(f"{at}.ln2", d, m.norm_eps), f"{at}.norm2"), block, f"{at}.mlp")
        )
    return b.answer(b.linear(b.mean(x, "mean"), Dense("classifier", m.hidden, m.outputs), "classifier"))


def front(b: Any, m: Config, words: Any) -> Any:
    return b.positions(words, Positions("embeddings.position_embeddings.weight", None, m.hidden), "positions")


FAMILY = Family(
    Config, {"activation": ("gelu",), "pooling": ("mean",)}, forward, Config, lambda m: Names(()), front=front
)
