"""ModernBERT (arXiv 2412.13663): norms before the blocks, rotary positions, gated feed-forward, no biases,
and in all but every n-th layer an attention that sees only the tokens nearby."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tacita.blocks.base import EVERYWHERE, Attention, Dense, FeedForward, Norm, Rotary
from tacita.extras import AT_DEFAULT
from tacita.models.config import KNOWN, EncoderConfig, Names
from tacita.models.fields import Fields
from tacita.models.layers import WITHOUT_POOLER, Family, Layer, Step, architectures, forward_of
from tacita.models.rotary import BASE, MOST_BASE
from tacita.texts.embedding import WORDS as WORD_TABLE
from tacita.texts.task import WORDS

PARTS = {WORD_TABLE: "embeddings.tok_embeddings.weight", "embeddings.LayerNorm": "embeddings.norm"}
KINDS = ("full_attention", "sliding_attention")


@dataclass(frozen=True)
class ModernBertConfig(EncoderConfig):
    """The configuration of a ModernBERT model. every: each layer whose number this divides sees all tokens;
    others `reach` tokens to each side. bases: of the rotary positions of both. biases: of attention,
    feed-forward, head and decoder."""

    every: int = field(default=3, metadata=AT_DEFAULT)
    reach: int = field(default=64, metadata=AT_DEFAULT)
    bases: tuple[float, float] = field(default=(160000.0, 10000.0), metadata=AT_DEFAULT)
    biases: tuple[bool, bool, bool, bool] = field(default=(False, False, False, True), metadata=AT_DEFAULT)
    head_activation: str = field(default="gelu", metadata=AT_DEFAULT)


def read(f: Fields, **answer: Any) -> ModernBertConfig:
    """Reads config.json."""
    every, sizes = f.integer("global_attn_every_n_layers", 1 << 10, default=3), f.sizes()
    f.only("layer_types", [KINDS[i % every > 0] for i in range(sizes["layers"])])
    near, far, head = (f.flag(name, False) for name in ("attention_bias", "mlp_bias", "classifier_bias"))
    return ModernBertConfig(
        **sizes,
        activation=f.activation("hidden_activation", "gelu"),
        norm_eps=f.epsilon("norm_eps", 1e-5),
        position_table=False,
        embedding_beta=f.flag("norm_bias", False),
        every=every,
        reach=f.integer("local_attention", 1 << 20, default=128) // 2,
        bases=_bases(f),
        biases=(near, far, head, f.flag("decoder_bias", True)),
        head_activation=f.activation("classifier_activation", "gelu"),
        **answer,
    )


def _layer(m: ModernBertConfig, i: int) -> Layer:
    """Layer 0 starts from the embedding's norm, and has none before its attention."""
    at, hidden, wide, everywhere = f"layers.{i}.", m.hidden, m.intermediate, i % m.every == 0
    near, far, _, _ = m.biases
    query, key, value = (Dense(f"{at}attn.Wqkv", hidden, hidden, bias=near, part=(k, 3)) for k in range(3))
    gate, up = (Dense(f"{at}mlp.Wi", hidden, wide, bias=far, part=(k, 2)) for k in range(2))
    attention = Attention(
        m.heads,
        query,
        key,
        value,
        Dense(f"{at}attn.Wo", hidden, hidden, bias=near),
        rotary=Rotary(m.bases[0 if everywhere else 1]),
        reach=EVERYWHERE if everywhere else (m.reach, m.reach),
    )
    forward = FeedForward(up, m.activation, Dense(f"{at}mlp.Wo", wide, hidden, bias=far), gate)
    return Layer(attention, _norm(m, f"{at}attn_norm") if i else None, forward, _norm(m, f"{at}mlp_norm"))


def _steps(m: ModernBertConfig) -> Sequence[Step]:
    """The head, dense map, function, norm, where there is a classifier or a decoder after it."""
    if not m.labels and m.task != WORDS:
        return []
    dense = Dense("head.dense", m.hidden, m.hidden, bias=m.biases[2])
    head = Step("head", dense, m.head_activation, _norm(m, "head.norm"), called="activation")
    if m.task == WORDS:
        return [head, Step("decoder", Dense("decoder", m.hidden, m.vocab, bias=m.biases[3]))]
    return [head, Step("classifier", Dense("classifier", m.hidden, len(m.labels)))]


def _bases(f: Fields) -> tuple[float, float]:
    """Reads the rotary bases of layers that see everything, and of the others; newer files keep them in one
    field."""
    f.only("rope_scaling", None)
    everywhere = f.number("global_rope_theta", 160000.0, 1.0, MOST_BASE)
    older = everywhere, f.number("local_rope_theta", BASE, 1.0, MOST_BASE)
    if (newer := f.part("rope_parameters")) is None:
        return older
    bases = []
    for kind, base in zip(KINDS, older, strict=True):
        of = newer.part(kind) or newer.refuse(kind, "it must be an object")
        of.only("rope_type", "default")
        bases.append(of.number("rope_theta", base, 1.0, MOST_BASE))
    return bases[0], bases[1]


def _norm(m: ModernBertConfig, name: str) -> Norm:
    return Norm(name, m.hidden, m.norm_eps, beta=m.embedding_beta)


FAMILY = Family(
    ModernBertConfig,
    {"activation": KNOWN, "head_activation": KNOWN, "pooling": WITHOUT_POOLER},
    forward_of(_layer, _steps, lambda m: _norm(m, "final_norm")),
    read,
    names=lambda m: Names(("model.",), PARTS, {"decoder.weight": (PARTS[WORD_TABLE],)}),
    architectures=architectures("ModernBert"),
    model_types=("modernbert",),
    pooling_stated=True,
)
