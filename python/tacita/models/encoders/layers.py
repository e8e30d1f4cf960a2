"""The two kinds of encoder layers, walked: with LayerNorms after the blocks (BERT) or before them (ViT)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tacita.blocks.base import Attention, Blocks, FeedForward, Norm, T
from tacita.models.encoders.config import EncoderConfig

A = TypeVar("A")  # an interpreter's answer


@dataclass(frozen=True)
class Layer:
    """The declarations of one layer. norm1 belongs to the attention and norm2 to the feed-forward; norm1 is
    None where the first layer starts from rows that are normalised already (ModernBERT)."""

    attention: Attention
    norm1: Norm | None
    feed_forward: FeedForward
    norm2: Norm | None


Declare = Callable[[int], Layer]  # number of a layer -> its declarations


def asked(m: EncoderConfig, i: int, all_rows: bool) -> int | None:
    """Which tokens layer i computes (see `Blocks.take`): the last gives one where only one is read."""
    if i < m.layers - 1 or all_rows:
        return None
    return 1 if m.first_token else -1 if m.last_token else None


def post_norm(b: Blocks[T, A], m: EncoderConfig, x: T, declare: Declare, *, all_rows: bool) -> T:
    """norm2(y + feed_forward(y)) with y = norm1(x + attention(x)), layer by layer."""
    for i in range(m.layers):
        p, at, rows = declare(i), f"layer{i}", asked(m, i, all_rows)
        y = b.add(b.take(x, rows), b.attention(x, p.attention, f"{at}.attention", rows))
        y = _norm(b, y, p.norm1, f"{at}.norm1")
        y = b.add(y, b.feed_forward(y, p.feed_forward, f"{at}.feed_forward"))
        x = _norm(b, y, p.norm2, f"{at}.norm2")
    return x


def pre_norm(b: Blocks[T, A], m: EncoderConfig, x: T, declare: Declare, *, all_rows: bool) -> T:
    """y + feed_forward(norm2(y)) with y = x + attention(norm1(x)), layer by layer; without the final norm."""
    for i in range(m.layers):
        p, at, rows = declare(i), f"layer{i}", asked(m, i, all_rows)
        y = b.attention(_norm(b, x, p.norm1, f"{at}.norm1"), p.attention, f"{at}.attention", rows)
        x = b.add(b.take(x, rows), y)
        y = b.feed_forward(_norm(b, x, p.norm2, f"{at}.norm2"), p.feed_forward, f"{at}.feed_forward")
        x = b.add(x, y)
    return x


def _norm(b: Blocks[T, A], x: T, norm: Norm | None, name: str) -> T:
    return x if norm is None else b.norm(x, norm, name)
