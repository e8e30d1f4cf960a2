"""NanoGuard, a classifier of prompt injections: RMS norms without weights before the blocks, rotary
positions, normalised queries and keys, squares of ReLU, no biases, and residuals that are scaled before every
layer and get the first hidden states again. `config.json` and the names of tensors are as
`python -m bench convert` writes them; the rows of its table of words are normalised.

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

from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import Any, TypeVar

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Rotary, T
from tacita.errors import CheckpointError
from tacita.extras import AT_DEFAULT
from tacita.models.config import EncoderConfig, Names, check_task
from tacita.models.fields import Fields
from tacita.models.layers import CLASS, Family
from tacita.models.rotary import BASE, MOST_BASE
from tacita.texts.embedding import WORDS
from tacita.texts.task import TEXT

A = TypeVar("A")  # an interpreter's answer
SINGLE, CLASSIFIER_EPSILON = 2.0**-23, 1e-5
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


@dataclass(frozen=True)
class NanoGuardConfig(EncoderConfig):
    """The configuration of a NanoGuard model. lambdas, mus: see `ResidualScales.of`. base: of the rotary
    positions."""

    lambdas: tuple[float, ...] = field(default=(), metadata=AT_DEFAULT)
    mus: tuple[float, ...] = field(default=(), metadata=AT_DEFAULT)
    base: float = field(default=BASE, metadata=AT_DEFAULT)


def read(f: Fields, **answer: Any) -> NanoGuardConfig:
    """Reads config.json."""
    sizes = f.sizes("n_layer", "n_embd", "n_head", intermediate=None, positions="sequence_len")
    layers = sizes["layers"]
    f.only("n_kv_head", sizes["heads"])
    f.only("layer_norm_eps", CLASSIFIER_EPSILON)
    if not f.flag("normed_embedding", False):
        f.refuse("normed_embedding", "convert the model with python -m bench convert")
    return NanoGuardConfig(
        **sizes,
        activation="relu2",
        norm_eps=f.epsilon("rms_norm_eps", SINGLE),
        embedding_norm=False,
        position_table=False,
        lambdas=f.numbers("resid_lambdas", (1.0,) * layers, -MOST, MOST),
        mus=f.numbers("x0_lambdas", (0.0,) * layers, -MOST, MOST),
        base=f.number("rope_base", BASE, 1.0, MOST_BASE),
        **answer,
    )


def forward(b: Blocks[T, A], m: NanoGuardConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the answer from hidden states; see `bert.forward`. Every layer gives every token."""
    scales, start = ResidualScales.of(m.lambdas, m.mus, m.layers), x
    for i, (p, factor) in enumerate(zip(scales.scale, (*scales.restart[1:], 0.0), strict=True)):
        at, norm = f"layer{i}", _norm(m, p)
        y = b.norm(x, norm, f"{at}.norm1") if i else x
        y = b.add(x, b.attention(y, _attention(m, i, p), f"{at}.attention"))
        residual = b.add(y, start, factor) if factor else y  # for the next layer
        x = b.add(
            residual, b.feed_forward(b.norm(y, norm, f"{at}.norm2"), _mlp(m, i, p), f"{at}.feed_forward")
        )
    x = b.mean(b.norm(x, _norm(m, scales.scale[-1]), "final_norm"), "mean")
    x = b.norm(x, Norm("cls_norm", m.hidden, CLASSIFIER_EPSILON), "mean.norm")
    return b.answer(b.linear(x, Dense("cls_head", m.hidden, len(m.labels)), "classifier"))


def check(m: NanoGuardConfig) -> None:
    """Raises CheckpointError for another task than classification, and for numbers out of range."""
    check_task(m)
    ResidualScales.of(m.lambdas, m.mus, m.layers)
    if m.task != TEXT or not m.labels or not 1.0 <= m.base <= MOST_BASE:
        raise CheckpointError(f"task {m.task!r}, {len(m.labels)} labels", hint="NanoGuard is a classifier")


def _attention(m: NanoGuardConfig, i: int, p: float) -> Attention:
    at, d = f"transformer.h.{i}.attn", m.hidden
    query, key, value = (Dense(f"{at}.c_{part}", d, d, bias=False) for part in "qkv")
    ours, theirs = (_norm(m, 1.0, d // m.heads, f"{at}.{part}") for part in "qk")
    output = Dense(f"{at}.c_proj", d, d, 1.0 / p, bias=False)
    return Attention(m.heads, query, key, value, output, normed=(ours, theirs), rotary=Rotary(m.base))


def _mlp(m: NanoGuardConfig, i: int, p: float) -> FeedForward:
    at, d, wide = f"transformer.h.{i}.mlp", m.hidden, m.intermediate
    down = Dense(f"{at}.c_proj", wide, d, 1.0 / p, bias=False)
    return FeedForward(Dense(f"{at}.c_fc", d, wide, bias=False), m.activation, down)


def _norm(m: NanoGuardConfig, p: float, size: int = 0, name: str = "") -> Norm:
    """Declares an RMS norm without weights, of values that are stored divided by p."""
    return Norm(name, size or m.hidden, m.norm_eps / p**2, centred=False, gamma=False, beta=False)


FAMILY = Family(
    NanoGuardConfig,
    {"activation": ("relu2",), "pooling": ("mean",)},
    forward,
    read,
    names=lambda m: Names((), {WORDS: "transformer.wte.weight"}),
    architectures={"NanoGuardForSequenceClassification": CLASS},
    pooling="mean",
    check=check,
)
