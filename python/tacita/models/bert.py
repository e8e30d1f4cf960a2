"""BERT: configuration, names of its weights, and the model.

Hidden states after the embedding (from `front.embed`, from `front`, or given) -> encoder layers with
LayerNorm after each block -> pooled vector -> logits or, without a classifier, the pooled vector. Names are
Hugging Face's, without the prefix `bert.`; matrices are in torch's layout (outputs, inputs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Positions, Powers, Softmax, T
from tacita.errors import PlanError
from tacita.models.retrained import ORDINARY, Retrained

A = TypeVar("A")  # an interpreter's answer
ACTIVATIONS = ("gelu", "relu")
# tanh(W x + b) of [CLS]; [CLS] as the last layer leaves it; mean over the real tokens
POOLINGS = ("pooler", "cls", "mean")


@dataclass(frozen=True)
class BertConfig:
    """Sizes and options of one checkpoint.

    labels: one per class; none where there is no classifier (BertModel): the answer is then the pooled
    vector. embeddings: False for a model that starts from hidden states and has no embedding tables.
    types: 0 without token types. retrained: what stands in place of softmax and LayerNorm, by default
    nothing.
    embedding_norm: whether a LayerNorm follows the sum of the embedding tables. pooling: one of `POOLINGS`.
    normalise: whether the answer, then without a classifier, is divided by its length (`tasks.embedding`).
    """

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocab: int
    positions: int
    types: int
    activation: str
    pooling: str
    norm_eps: float
    labels: tuple[str, ...]
    embeddings: bool = True
    retrained: Retrained = ORDINARY
    embedding_norm: bool = True
    normalise: bool = False

    @property
    def first_token(self) -> bool:
        """Whether only the first token of the last layer is read: that layer then runs on one query."""
        return self.pooling in ("pooler", "cls")

    @property
    def outputs(self) -> int:
        """Length of the answer: one number a label, or `hidden` when there is no classifier."""
        return len(self.labels) or self.hidden


@dataclass(frozen=True)
class Layer:
    """The declarations of one encoder layer."""

    attention: Attention
    norm1: Norm
    feed_forward: FeedForward
    norm2: Norm


def forward(b: Blocks[T, A], m: BertConfig, x: T, *, all_rows: bool = False) -> A:
    """The model: hidden states (tokens, hidden) -> answer (1, outputs).

    all_rows: the last layer gives every token, also where only the first is read (for the records of a
    calibration).
    """
    for i in range(m.layers):
        p, at = layer(m, i), f"layer{i}"
        rows = 1 if m.first_token and i == m.layers - 1 and not all_rows else None
        y = b.add(b.take(x, rows), b.attention(x, p.attention, f"{at}.attention", rows))
        y = b.norm(y, p.norm1, f"{at}.norm1")
        x = b.norm(b.add(y, b.feed_forward(y, p.feed_forward, f"{at}.feed_forward")), p.norm2, f"{at}.norm2")
    pooled = _pooled(b, m, x)
    classifier = Dense("classifier", m.hidden, len(m.labels))
    return b.answer(b.linear(pooled, classifier, "classifier") if m.labels else pooled)


def front(b: Blocks[T, A], m: BertConfig, words: T) -> T:
    """Rows of the word table (tokens, hidden) of a single text -> hidden states."""
    types = "embeddings.token_type_embeddings.weight" if m.types else None
    p = Positions("embeddings.position_embeddings.weight", types, m.hidden)
    x = b.positions(words, p, "embedding.positions")
    return b.norm(x, _norm(m, "embeddings"), "embedding.norm") if m.embedding_norm else x


def layer(m: BertConfig, i: int) -> Layer:
    """The declarations of encoder layer i."""
    at, hidden, wide, r = layer_prefix(i), m.hidden, m.intermediate, m.retrained
    names = ("self.query", "self.key", "self.value", "output.dense")
    query, key, value, output = (Dense(f"{at}attention.{name}", hidden, hidden) for name in names)
    weights = Powers(r.power, r.offset, r.denominators[i]) if r.bpmax else Softmax()
    up, down = Dense(f"{at}intermediate.dense", hidden, wide), Dense(f"{at}output.dense", wide, hidden)
    deviations = r.deviations[i] if r.batch_norm else (None, None)
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
    """Raises CheckpointError for bad numbers of a retrained model."""
    m.retrained.check(m.layers)


def _pooled(b: Blocks[T, A], m: BertConfig, x: T) -> T:
    match m.pooling:
        case "pooler":
            dense = Dense("pooler.dense", m.hidden, m.hidden)
            return b.function(b.linear(b.take(x, 1), dense, "pooler"), "tanh", "pooler.tanh")
        case "cls":
            return b.take(x, 1)
        case "mean":
            return b.mean(x, "mean")
        case unknown:
            raise PlanError(f"pooling {unknown!r}", hint=f"supported: {', '.join(POOLINGS)}")


def _norm(m: BertConfig, at: str, deviation: float | None = None) -> Norm:
    return Norm(f"{at}.LayerNorm", m.hidden, m.norm_eps, deviation)
