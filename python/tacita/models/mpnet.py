"""MPNet (arXiv 2004.09297): BERT's layers without token types, whose scores get a bias by the distance of key
and query, the same in every layer; positions and heads are RoBERTa's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import Blocks, Relative, T
from tacita.models import bert, roberta
from tacita.models.shared import layers
from tacita.models.shared.config import EncoderConfig, Names, check_task, tied
from tacita.models.shared.layers import Layer, architectures, post_norm

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
MODEL_TYPES = ("mpnet",)
ARCHITECTURES = architectures("MPNet")
OPTIONS = bert.OPTIONS
TABLE = "encoder.relative_attention_bias.weight"
BUCKETS, DISTANCE = 32, 128  # fixed in the implementation
PARTS = {
    "attention.self.query": "attention.attn.q",
    "attention.self.key": "attention.attn.k",
    "attention.self.value": "attention.attn.v",
    "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
}


@dataclass(frozen=True)
class MPNetConfig(EncoderConfig):
    """The configuration of an MPNet model; fields: see `EncoderConfig`."""


def read(f: Fields, **answer: Any) -> MPNetConfig:
    """Reads config.json."""
    first = roberta.PADDING + 1  # fixed in the implementation, whatever pad_token_id says
    positions = f.positions("max_position_embeddings", first)
    sizes = bert.bert_sizes(f) | {"positions": positions, "types": 0}
    f.only("relative_attention_num_buckets", BUCKETS)
    return MPNetConfig(**sizes, first_position=first, **answer)


def names(m: EncoderConfig) -> Names:
    """Returns BERT's names, and RoBERTa's for the decoder of words."""
    return Names(("mpnet.",), PARTS, tied("lm_head.decoder", "lm_head.bias", bert.WORD_TABLE))


classifier_pooling = roberta.classifier_pooling
front = bert.front
check = check_task


def forward(b: Blocks[T, A], m: MPNetConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the answer from hidden states; see `bert.forward`."""
    x = post_norm(b, m, x, lambda i: _layer(m, i), all_rows=all_rows)
    return layers.answer(b, m, x, roberta.steps(m))


def _layer(m: MPNetConfig, i: int) -> Layer:
    layer = bert.bert_layer(m, bert.layer_prefix(i))
    relative = Relative(TABLE, BUCKETS, DISTANCE)
    return replace(layer, attention=replace(layer.attention, relative=relative))
