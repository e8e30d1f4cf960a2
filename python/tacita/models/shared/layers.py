"""The two kinds of encoder layers, walked: with LayerNorms after the blocks (BERT) or before them (ViT).

Residuals that are scaled before every layer, and get the first hidden states again (nanochat).

Layer i starts from lambda_i x + mu_i x0, where x0 is what layer 0 starts from. Blocks have no product of x by
a number, and need none: what is stored is x / P_i, with P_i the product of lambda_1 to lambda_i and of
lambda_0 + mu_0, since layer 0 starts from a multiple of x0:

    x / P_i  ->  x / P_i + (mu_i / P_i) x0        and the blocks of layer i give 1 / P_i of what they gave

The norms before the blocks undo P_i, if their epsilon is divided by its square.

>>> scales = ResidualScales.of((2.0, 4.0), (1.0, 6.0), layers=2)
>>> scales.scale, scales.restart
((3.0, 12.0), (0.0, 0.5))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import TypeVar

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, T
from tacita.errors import CheckpointError, PlanError
from tacita.models.shared.config import EVERY_TOKEN, LAST, LATEST, EncoderConfig

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


def layer_rows(m: EncoderConfig, i: int, all_rows: bool) -> int | None:
    """Which tokens layer i computes (see `Blocks.take`): the last gives one where only one is read."""
    if i < m.layers - 1 or all_rows:
        return None
    return 1 if m.first_token else -1 if m.last_token else None


def post_norm(b: Blocks[T, A], m: EncoderConfig, x: T, declare: Declare, *, all_rows: bool) -> T:
    """Computes norm2(y + feed_forward(y)) with y = norm1(x + attention(x)), layer by layer."""
    for i in range(m.layers):
        p, at, rows = declare(i), f"layer{i}", layer_rows(m, i, all_rows)
        y = b.add(b.take(x, rows), b.attention(x, p.attention, f"{at}.attention", rows))
        y = _norm(b, y, p.norm1, f"{at}.norm1")
        y = b.add(y, b.feed_forward(y, p.feed_forward, f"{at}.feed_forward"))
        x = _norm(b, y, p.norm2, f"{at}.norm2")
    return x


def pre_norm(b: Blocks[T, A], m: EncoderConfig, x: T, declare: Declare, *, all_rows: bool) -> T:
    """Computes y + feed_forward(norm2(y)) with y = x + attention(norm1(x)), layer by layer; without the final
    norm."""
    for i in range(m.layers):
        p, at, rows = declare(i), f"layer{i}", layer_rows(m, i, all_rows)
        y = b.attention(_norm(b, x, p.norm1, f"{at}.norm1"), p.attention, f"{at}.attention", rows)
        x = b.add(b.take(x, rows), y)
        y = b.feed_forward(_norm(b, x, p.norm2, f"{at}.norm2"), p.feed_forward, f"{at}.feed_forward")
        x = b.add(x, y)
    return x


def _norm(b: Blocks[T, A], x: T, norm: Norm | None, name: str) -> T:
    return x if norm is None else b.norm(x, norm, name)


LEAST, MOST = 2.0**-10, 2.0**10  # of lambda, mu / P and, squared, P


@dataclass(frozen=True)
class ResidualScales:
    """Scales of the residual stream by layer: scale, P_i; restart, mu_i / P_i, which is 0 for layer 0."""

    scale: tuple[float, ...]
    restart: tuple[float, ...]

    @staticmethod
    def of(lambdas: tuple[float, ...], mus: tuple[float, ...], layers: int) -> ResidualScales:
        """Computes the scales of `layers` layers; empty tuples stand for ones and zeros. Raises
        CheckpointError for others than one a layer, and for values out of range."""
        scales, added = lambdas or (1.0,) * layers, mus or (0.0,) * layers
        if len(scales) != layers or len(added) != layers or not all(LEAST <= v <= MOST for v in scales):
            raise CheckpointError(
                f"lambdas {lambdas!s:.80}, mus {mus!s:.80} for {layers} layers",
                hint=f"one of each a layer, lambdas from {LEAST:g} to {MOST:g}",
            )
        scale = tuple(accumulate((scales[0] + added[0], *scales[1:]), mul))
        if not all(LEAST**2 <= p <= MOST**2 for p in scale):
            raise CheckpointError(f"lambdas and mus that multiply to {scale!s:.80}", hint="too far from 1")
        restart = (0.0, *(mu / p for mu, p in zip(added[1:], scale[1:], strict=True)))
        if not all(abs(factor) <= MOST for factor in restart):
            raise CheckpointError(f"mus {mus!s:.80}", hint=f"at most {MOST:g} times the lambdas before them")
        return ResidualScales(scale, restart)


# What comes after the last layer: which rows are read, and the dense maps from them to the answer.

# tanh(W x + b) of [CLS]; [CLS] as the last layer leaves it; mean over the real tokens
POOLINGS = ("pooler", "cls", "mean")
WITHOUT_POOLER = ("cls", "mean", EVERY_TOKEN)
ALL = (*POOLINGS, EVERY_TOKEN)
DECODER = (LAST, LATEST)
# what an architecture gives
MODEL, CLASS, EACH, ANSWER, FILL, CAUSAL = "model", "class", "tokens", "span", "words", "next"
HEADS = {
    "Model": MODEL,
    "ForSequenceClassification": CLASS,
    "ForTokenClassification": EACH,
    "ForQuestionAnswering": ANSWER,
    "ForMaskedLM": FILL,
}


def architectures(*prefixes: str, **more: str) -> dict[str, str]:
    """Names that config.json gives under `architectures` -> which head that is. more: beside `HEADS`."""
    return {prefix + head: kind for prefix in prefixes for head, kind in (HEADS | more).items()}


@dataclass(frozen=True)
class Step:
    """norm(function(dense(x))): without a function or a norm where there is none. node: of the dense map;
    the others are NODE.FUNCTION and NODE.norm. called: in place of FUNCTION where plans do not state which
    function that is."""

    node: str
    dense: Dense
    function: str = ""
    norm: Norm | None = None
    called: str = ""


def answer(b: Blocks[T, A], m: EncoderConfig, x: T, steps: Sequence[Step]) -> A:
    """The rows that are read, step by step -> answer."""
    x = pooled(b, m, x)
    for step in steps:
        x = b.linear(x, step.dense, step.node)
        name = f"{step.node}.{step.called or step.function}"
        x = b.function(x, step.function, name) if step.function else x
        x = b.norm(x, step.norm, f"{step.node}.norm") if step.norm else x
    return b.answer(x)


def pooled(b: Blocks[T, A], m: EncoderConfig, x: T) -> T:
    """Returns (1, hidden), or every row. The pooler's own map is a step of the family (`pooler`)."""
    match m.pooling:
        case "pooler" | "cls":
            return b.take(x, 1)
        case "mean":
            return b.mean(x, "mean")
        case "none":
            return x
        case "last" | "latest":
            return b.take(x, -1)
        case unknown:
            raise PlanError(f"pooling {unknown!r}", hint=f"supported: {', '.join((*ALL, *DECODER))}")


def pooler(m: EncoderConfig, name: str = "pooler.dense") -> Sequence[Step]:
    """The map of [CLS] that BERT was trained with, where the pooling is this one."""
    return [Step("pooler", Dense(name, m.hidden, m.hidden), "tanh")] if m.pooling == "pooler" else []


def classifier(m: EncoderConfig, name: str = "classifier") -> Sequence[Step]:
    """The last map, to the labels; none where there are none. Of questions: `qa_outputs`."""
    name = "qa_outputs" if m.task == "span" else name
    return [Step("classifier", Dense(name, m.hidden, len(m.labels)))] if m.labels else []


def words(m: EncoderConfig, at: tuple[str, str, str], function: str) -> Sequence[Step]:
    """Returns the steps to scores of every word of the vocabulary. at: names of the dense map, of the norm
    and of the decoder."""
    dense, norm, decoder = at
    width = m.embedding_size or m.hidden
    return [
        Step("words", Dense(dense, m.hidden, width), function, Norm(norm, width, m.norm_eps)),
        Step("decoder", Dense(decoder, width, m.vocab)),
    ]
