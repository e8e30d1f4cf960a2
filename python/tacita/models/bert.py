"""BERT: configuration, names of its weights, and the model.

Hidden states after the embedding (from `texts.embed`, from `front`, or given) -> encoder layers with
LayerNorm after each block -> pooled vector -> logits or, without a classifier, the pooled vector. Names are
Hugging Face's, without the prefix `bert.`; matrices are in torch's layout (outputs, inputs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tacita.blocks.base import Attention, Dense, FeedForward, Norm, Powers, Softmax
from tacita.models import layers
from tacita.models.config import KNOWN, EncoderConfig, Names, check_task, tied
from tacita.models.fields import Fields
from tacita.models.layers import Family, Layer, Step, architectures, forward_of
from tacita.models.retrained import ORDINARY, Retrained, read_retrained
from tacita.texts.embedding import MAX_TYPES
from tacita.texts.embedding import WORDS as WORD_TABLE
from tacita.texts.task import WORDS

SOFTMAX = Softmax()
OPTIONS = {"activation": KNOWN, "pooling": layers.ALL}


@dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """The configuration of a BERT model. retrained: what stands in place of softmax and LayerNorm, by default
    nothing. embedding_norm: whether a LayerNorm follows the sum of the embedding tables. pooling: one of
    `layers.ALL`."""

    retrained: Retrained = ORDINARY


def read(f: Fields, **answer: Any) -> BertConfig:
    """Reads config.json. answer: the fields that follow from the head (`checkpoint.config`)."""
    sizes = bert_sizes(f)
    norm = f.flag("emb_layer_norm_before", True)  # ESM's name for it
    return BertConfig(**sizes, embedding_norm=norm, retrained=read_retrained(f), **answer)


def bert_sizes(f: Fields) -> dict[str, Any]:
    """The fields that RoBERTa, ELECTRA and others call by the same names. Refuses decoders."""
    f.only("is_decoder", False)
    f.only("add_cross_attention", False)
    f.only("pruned_heads", {})
    f.only("position_embedding_type", "absolute")
    return f.sizes() | {
        "types": f.integer("type_vocab_size", MAX_TYPES, 2, least=0),
        "activation": f.activation("hidden_act", "gelu"),
        "norm_eps": f.epsilon("layer_norm_eps", 1e-12),
    }


def _layer(m: BertConfig, i: int) -> Layer:
    r = m.retrained
    weights = Powers(r.power, r.offset, r.denominators[i]) if r.bpmax else SOFTMAX
    deviations = r.deviations[i] if r.batch_norm else (None, None)
    return bert_layer(m, i, weights, deviations)


def bert_layer(
    m: EncoderConfig,
    i: int,
    weights: Softmax | Powers = SOFTMAX,
    deviations: tuple[float | None, float | None] = (None, None),
) -> Layer:
    """Declares encoder layer i under BERT's names."""
    at, hidden, wide = layer_prefix(i), m.hidden, m.intermediate
    names = ("self.query", "self.key", "self.value", "output.dense")
    query, key, value, output = (Dense(f"{at}attention.{name}", hidden, hidden) for name in names)
    up, down = Dense(f"{at}intermediate.dense", hidden, wide), Dense(f"{at}output.dense", wide, hidden)
    first, second = (
        Norm(f"{at}{name}.LayerNorm", hidden, m.norm_eps, deviation)
        for name, deviation in zip(("attention.output", "output"), deviations, strict=True)
    )
    attention = Attention(m.heads, query, key, value, output, weights)
    return Layer(attention, first, FeedForward(up, m.activation, down), second)


def layer_prefix(index: int) -> str:
    """Name prefix of the weights of encoder layer `index`."""
    return f"encoder.layer.{index}."


def check(m: BertConfig) -> None:
    """Raises CheckpointError for bad numbers of a retrained model, and a task that does not fit."""
    check_task(m)
    m.retrained.check(m.layers)


def _steps(m: BertConfig) -> Sequence[Step]:
    if m.task == WORDS:
        return layers.words(
            m, (f"{AT}.transform.dense", f"{AT}.transform.LayerNorm", f"{AT}.decoder"), m.activation
        )
    return layers.pooler_and_classifier(m)


AT = "cls.predictions"
ALSO = tied(f"{AT}.decoder", f"{AT}.bias", WORD_TABLE)  # a decoder of words is the table of words
FAMILY = Family(
    BertConfig,
    OPTIONS,
    forward_of(_layer, _steps),
    read,
    names=lambda m: Names(("bert.",), also=ALSO),
    architectures=architectures("Bert", ForPreTraining=WORDS),
    model_types=("bert",),
    pooling="pooler",
    pooling_stated=True,
    check=check,
)
