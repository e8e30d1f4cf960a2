"""RoBERTa, XLM-RoBERTa, CamemBERT: BERT's layers, positions that begin after the padding's, heads of two
maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import Blocks, Dense, T
from tacita.models import bert
from tacita.models.base import TEXT, WORDS
from tacita.models.shared import layers
from tacita.models.shared.config import EncoderConfig, Names, check_task, tied
from tacita.models.shared.layers import Step, architectures, post_norm

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
MODEL_TYPES = ("roberta", "xlm-roberta", "camembert")
ARCHITECTURES = architectures("Roberta", "XLMRoberta", "Camembert")
OPTIONS = bert.OPTIONS
MOST_PADDING = 1 << 10
PADDING = 1  # the token of padding; the first real position is the next


@dataclass(frozen=True)
class RobertaConfig(EncoderConfig):
    """The configuration of a RoBERTa model; fields: see `EncoderConfig`."""


def read(f: Fields, **answer: Any) -> RobertaConfig:
    """Reads config.json."""
    first = f.integer("pad_token_id", MOST_PADDING, default=PADDING, least=0) + 1
    sizes = bert.bert_sizes(f) | {"positions": f.positions("max_position_embeddings", first)}
    return RobertaConfig(**sizes, first_position=first, **answer)


def names(m: EncoderConfig) -> Names:
    """Returns BERT's names, but for the decoder of words."""
    return Names(("roberta.",), also=tied("lm_head.decoder", "lm_head.bias", bert.WORD_TABLE))


def classifier_pooling(f: Fields) -> str:
    """Classifiers read the first token as the last layer leaves it."""
    return "cls"


def forward(b: Blocks[T, A], m: RobertaConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the answer from hidden states; see `bert.forward`."""
    x = post_norm(b, m, x, lambda i: bert.bert_layer(m, bert.layer_prefix(i)), all_rows=all_rows)
    return layers.answer(b, m, x, steps(m))


front = bert.front
check = check_task


def steps(m: EncoderConfig) -> Sequence[Step]:
    """A classifier of texts is a dense map, tanh, and the map to the labels; others are BERT's."""
    if m.task == WORDS:
        return layers.words(m, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "gelu")
    if m.task == TEXT and m.labels:
        inner = Step("classifier.dense", Dense("classifier.dense", m.hidden, m.hidden), "tanh")
        return [inner, *layers.classifier(m, "classifier.out_proj")]
    return [*layers.pooler(m), *layers.classifier(m)]
