"""ELECTRA (arXiv 2003.10555): BERT's layers after a projection of smaller embeddings; no pooler; classifiers
of two maps with GELU. A discriminator's own head is left out: its folder is an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import Blocks, Dense, T
from tacita.models import bert
from tacita.models.base import TEXT, WORDS
from tacita.models.shared import layers
from tacita.models.shared.config import EncoderConfig, Names, check_task, tied
from tacita.models.shared.layers import MODEL, Step, architectures, post_norm

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
MODEL_TYPES = ("electra",)
ARCHITECTURES = architectures("Electra", ForPreTraining=MODEL)
OPTIONS = {"activation": bert.ACTIVATIONS, "pooling": layers.WITHOUT_POOLER}


@dataclass(frozen=True)
class ElectraConfig(EncoderConfig):
    """The configuration of an ELECTRA model; fields: see `EncoderConfig`."""


def read(f: Fields, **answer: Any) -> ElectraConfig:
    """Reads config.json."""
    sizes, size = bert.bert_sizes(f), f.width("embedding_size")
    return ElectraConfig(**sizes, embedding_size=0 if size == sizes["hidden"] else size, **answer)


def names(m: EncoderConfig) -> Names:
    """Returns BERT's names, but for the projection and the decoder of words."""
    also = tied("generator_lm_head", "generator_lm_head.bias", bert.WORD_TABLE)
    return Names(("electra.",), {"embeddings.projection": "embeddings_project"}, also)


def classifier_pooling(f: Fields) -> str:
    """Classifiers read the first token."""
    return "cls"


def forward(b: Blocks[T, A], m: ElectraConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the answer from hidden states; see `bert.forward`."""
    x = post_norm(b, m, x, lambda i: bert.bert_layer(m, bert.layer_prefix(i)), all_rows=all_rows)
    return layers.answer(b, m, x, _steps(m))


front = bert.front
check = check_task


def _steps(m: EncoderConfig) -> Sequence[Step]:
    if m.task == WORDS:
        at = "generator_predictions"
        return layers.words(m, (f"{at}.dense", f"{at}.LayerNorm", "generator_lm_head"), "gelu")
    if m.task == TEXT and m.labels:
        inner = Step("classifier.dense", Dense("classifier.dense", m.hidden, m.hidden), "gelu")
        return [inner, *layers.classifier(m, "classifier.out_proj")]
    return layers.classifier(m)
