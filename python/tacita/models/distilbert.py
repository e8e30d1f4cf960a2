"""DistilBERT (arXiv 1910.01108): BERT's layers under other names, no token types, no pooler; classifiers read
the first token through a ReLU."""

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
MODEL_TYPES = ("distilbert",)
ARCHITECTURES = architectures("DistilBert")
OPTIONS = {"activation": bert.ACTIVATIONS, "pooling": layers.WITHOUT_POOLER}
PARTS = {
    "encoder.layer.": "transformer.layer.",
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}


@dataclass(frozen=True)
class DistilBertConfig(EncoderConfig):
    """The configuration of a DistilBERT model; fields: see `EncoderConfig`."""


def read(f: Fields, **answer: Any) -> DistilBertConfig:
    """Reads config.json. Sinusoidal positions are stored as a table like others."""
    f.only("pruned_heads", {})
    return DistilBertConfig(
        layers=f.layers("n_layers"),
        hidden=f.width("dim"),
        heads=f.heads("n_heads", "dim"),
        intermediate=f.wide("hidden_dim"),
        vocab=f.vocab("vocab_size"),
        positions=f.positions("max_position_embeddings"),
        types=0,
        activation=f.activation("activation", "gelu"),
        norm_eps=1e-12,  # fixed in the implementation
        **answer,
    )


def names(m: EncoderConfig) -> Names:
    """Returns BERT's names."""
    return Names(("distilbert.",), PARTS, tied("vocab_projector", "vocab_projector.bias", bert.WORD_TABLE))


def classifier_pooling(f: Fields) -> str:
    """Classifiers read the first token."""
    return "cls"


def forward(b: Blocks[T, A], m: DistilBertConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the answer from hidden states; see `bert.forward`."""
    x = post_norm(b, m, x, lambda i: bert.bert_layer(m, bert.layer_prefix(i)), all_rows=all_rows)
    return layers.answer(b, m, x, _steps(m))


front = bert.front
check = check_task


def _steps(m: EncoderConfig) -> Sequence[Step]:
    if m.task == WORDS:
        return layers.words(m, ("vocab_transform", "vocab_layer_norm", "vocab_projector"), m.activation)
    if m.task == TEXT and m.labels:
        inner = Step("pre_classifier", Dense("pre_classifier", m.hidden, m.hidden), "relu")
        return [inner, *layers.classifier(m)]
    return layers.classifier(m)
