"""ALBERT (arXiv 1909.11942): one layer, applied again and again, after a projection of smaller embeddings.

Each layer has names of its own, for which the one tensor of the file stands: whoever changes a layer, as
`planning.calibrate.temper` does, changes no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import Blocks, T
from tacita.models import bert
from tacita.models.base import WORDS
from tacita.models.shared import layers
from tacita.models.shared.config import EncoderConfig, Names, check_task, tied
from tacita.models.shared.layers import FILL, Step, architectures, post_norm

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
MODEL_TYPES = ("albert",)
ARCHITECTURES = architectures("Albert", ForPreTraining=FILL)
OPTIONS = bert.OPTIONS
SHARED = "encoder.albert_layer_groups.0.albert_layers.0."
PARTS = {
    "embeddings.projection": "encoder.embedding_hidden_mapping_in",
    "attention.self.": "attention.",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
    "pooler.dense": "pooler",
}


@dataclass(frozen=True)
class AlbertConfig(EncoderConfig):
    """The configuration of an ALBERT model; fields: see `EncoderConfig`."""


def read(f: Fields, **answer: Any) -> AlbertConfig:
    """Reads config.json. Layers in several groups are refused: no published model has them."""
    f.only("num_hidden_groups", 1)
    f.only("inner_group_num", 1)
    sizes, size = bert.bert_sizes(f), f.width("embedding_size")
    sizes["activation"] = f.activation("hidden_act", "gelu_new")
    return AlbertConfig(**sizes, embedding_size=size, **answer)


def names(m: EncoderConfig) -> Names:
    """Returns BERT's names. Layers share their tensors."""
    shared = {bert.layer_prefix(i): SHARED for i in range(m.layers)}
    return Names(
        ("albert.",), shared | PARTS, tied("predictions.decoder", "predictions.bias", bert.WORD_TABLE)
    )


def classifier_pooling(f: Fields) -> str:
    """Classifiers read the pooler."""
    return "pooler"


def forward(b: Blocks[T, A], m: AlbertConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the answer from hidden states; see `bert.forward`."""
    x = post_norm(b, m, x, lambda i: bert.bert_layer(m, bert.layer_prefix(i)), all_rows=all_rows)
    return layers.answer(b, m, x, _steps(m))


front = bert.front
check = check_task


def _steps(m: EncoderConfig) -> Sequence[Step]:
    if m.task == WORDS:
        at = "predictions"
        return layers.words(m, (f"{at}.dense", f"{at}.LayerNorm", f"{at}.decoder"), m.activation)
    return [*layers.pooler(m), *layers.classifier(m)]
