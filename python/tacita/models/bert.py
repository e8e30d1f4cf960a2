"""BERT: configuration, names of its weights, and the model.

Hidden states after the embedding (from `texts.embed`, from `front`, or given) -> encoder layers with
LayerNorm after each block -> pooled vector -> logits or, without a classifier, the pooled vector. Names are
Hugging Face's, without the prefix `bert.`; matrices are in torch's layout (outputs, inputs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Positions, Powers, Softmax, T
from tacita.models.shared import layers
from tacita.models.shared.config import KNOWN, WORDS, EncoderConfig, Names, check_task, tied
from tacita.models.shared.layers import FILL, Layer, Step, architectures, post_norm
from tacita.models.shared.layers import POOLINGS as POOLINGS
from tacita.models.shared.retrained import ORDINARY, Retrained, read_retrained

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
SOFTMAX = Softmax()
ACTIVATIONS = KNOWN
MODEL_TYPES = ("bert",)
ARCHITECTURES = architectures("Bert", ForPreTraining=FILL)
WORD_TABLE = "embeddings.word_embeddings.weight"
OPTIONS = {"activation": ACTIVATIONS, "pooling": layers.ALL}


@dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """The configuration of a BERT model. retrained: what stands in place of softmax and LayerNorm, by default
    nothing. embedding_norm: whether a LayerNorm follows the sum of the embedding tables. pooling: one of
    `heads.ALL`."""

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
    return {
        "layers": f.layers("num_hidden_layers"),
        "hidden": f.width("hidden_size"),
        "heads": f.heads("num_attention_heads", "hidden_size"),
        "intermediate": f.wide("intermediate_size"),
        "vocab": f.vocab("vocab_size"),
        "positions": f.positions("max_position_embeddings"),
        "types": f.types("type_vocab_size", 2),
        "activation": f.activation("hidden_act", "gelu"),
        "norm_eps": f.epsilon("layer_norm_eps", 1e-12),
    }


def names(m: EncoderConfig) -> Names:
    """Returns Hugging Face's names. A decoder of words is the table of words."""
    at = "cls.predictions"
    return Names(("bert.",), also=tied(f"{at}.decoder", f"{at}.bias", WORD_TABLE))


def classifier_pooling(f: Fields) -> str:
    """BERT's classifiers read the pooler, unless the field that ModernBERT has says otherwise."""
    return f.name("classifier_pooling", ("cls", "mean"), "pooler")


def forward(b: Blocks[T, A], m: BertConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the model: hidden states (tokens, hidden) -> answer (1, outputs), or (tokens, outputs) for a
    task that has an answer for every token.

    all_rows: the last layer gives every token, also where only the first is read (for the records of a
    calibration).
    """
    x = post_norm(b, m, x, lambda i: layer(m, i), all_rows=all_rows)
    return layers.answer(b, m, x, _steps(m))


def front(b: Blocks[T, A], m: EncoderConfig, words: T) -> T:
    """Maps rows of the word table (tokens, embedding size) of a single text to hidden states."""
    size, x = m.embedding_size or m.hidden, words
    types = "embeddings.token_type_embeddings.weight" if m.types else None
    if m.position_table:
        table = "embeddings.position_embeddings.weight"
        x = b.positions(x, Positions(table, types, size, m.first_position), "embedding.positions")
    if m.embedding_norm:
        norm = Norm("embeddings.LayerNorm", size, m.norm_eps, beta=m.embedding_beta)
        x = b.norm(x, norm, "embedding.norm")
    return b.linear(x, projection(m), "embedding.projection") if m.embedding_size else x


def projection(m: EncoderConfig) -> Dense:
    """Declares the map from the embedding tables to the hidden states, for where they differ in size."""
    return Dense("embeddings.projection", m.embedding_size, m.hidden)


def layer(m: BertConfig, i: int) -> Layer:
    """The declarations of encoder layer i."""
    r = m.retrained
    weights = Powers(r.power, r.offset, r.denominators[i]) if r.bpmax else SOFTMAX
    deviations = r.deviations[i] if r.batch_norm else (None, None)
    return bert_layer(m, layer_prefix(i), weights, deviations)


def bert_layer(
    m: EncoderConfig,
    at: str,
    weights: Softmax | Powers = SOFTMAX,
    deviations: tuple[float | None, float | None] = (None, None),
) -> Layer:
    """A layer whose weights have names that begin with `at`."""
    hidden, wide = m.hidden, m.intermediate
    names = ("self.query", "self.key", "self.value", "output.dense")
    query, key, value, output = (Dense(f"{at}attention.{name}", hidden, hidden) for name in names)
    up, down = Dense(f"{at}intermediate.dense", hidden, wide), Dense(f"{at}output.dense", wide, hidden)
    return Layer(
        Attention(m.heads, query, key, value, output, weights),
        _norm(m, f"{at}attention.output", deviations[0]),
        FeedForward(up, m.activation, down),
        _norm(m, f"{at}output", deviations[1]),
    )


def layer_prefix(index: int) -> str:
    """Name prefix of the weights of encoder layer `index`."""
    return f"encoder.layer.{index}."


def check(m: BertConfig) -> None:
    """Raises CheckpointError for bad numbers of a retrained model, and a task that does not fit."""
    check_task(m)
    m.retrained.check(m.layers)


def _steps(m: BertConfig) -> Sequence[Step]:
    at = "cls.predictions"
    if m.task == WORDS:
        table = (f"{at}.transform.dense", f"{at}.transform.LayerNorm", f"{at}.decoder")
        return layers.words(m, table, m.activation)
    return [*layers.pooler(m), *layers.classifier(m)]


def _norm(m: EncoderConfig, at: str, deviation: float | None = None) -> Norm:
    return Norm(f"{at}.LayerNorm", m.hidden, m.norm_eps, deviation)
