"""The `bumblebee` scheme: an encoder's blocks on tensors that two parties share.

Written once on the operations of `backends.two_party.base`; which model it is comes in as data. Where only the first token is
wanted of a layer (the last one where the answer is read from [CLS]), queries, attention output, feed-forward and both norms run on that row
alone: keys and values are all that the other rows are needed for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tacita.two_party.base import Array, AttentionBounds, Dense, Interval, Norm, Operations, T, W


@dataclass(frozen=True)
class Layer:
    """One encoder layer. projections: queries (scaled by 1/sqrt(head size)), keys and values as one map; two maps, the queries apart,
    where only the first token of the result is wanted.

    bounds: of attention. activation: interval of what enters it. kind: gelu or relu.
    """

    heads: int
    projections: tuple[Dense, ...]
    attended: Dense
    norm1: Norm
    wide: Dense
    narrow: Dense
    norm2: Norm
    bounds: AttentionBounds
    activation: Interval
    kind: str

    @property
    def first_only(self) -> bool:
        """Whether the layer's result is that of the first token alone."""
        return len(self.projections) == 2


@dataclass(frozen=True)
class Front:
    """Embedding after a private look-up: position and type rows (tokens, hidden), None at the client, and the norm if there is one."""

    rows: Array | None
    norm: Norm | None


@dataclass(frozen=True)
class Pooler:
    """tanh(dense(first row)). interval: of the argument of tanh."""

    dense: Dense
    interval: Interval


class Direct(Enum):
    """Poolings without weights: the first row as it is, the mean over real tokens."""

    first = "cls"
    mean = "mean"


Head = Pooler | Direct


def embed(ops: Operations[T, W], front: Front, words: T) -> T:
    """Rows of the word table -> hidden states."""
    ops.stage("embedding")
    summed = ops.plus(words, front.rows)
    return ops.norm(summed, front.norm) if front.norm else summed


def layer(ops: Operations[T, W], part: Layer, x: T, name: str) -> T:
    """Hidden states -> hidden states; of the first token alone if that is all that the layer gives."""
    ops.stage(f"{name} attention")
    mixed = attention(ops, part, x)
    kept = ops.rows(x, 1) if part.first_only else x
    y = ops.norm(ops.linear(mixed, part.attended, add=kept), part.norm1)
    ops.stage(f"{name} feed-forward")
    inner = ops.activation(ops.linear(y, part.wide), part.kind, part.activation)
    return ops.norm(ops.linear(inner, part.narrow, add=y), part.norm2)


def attention(ops: Operations[T, W], part: Layer, x: T) -> T:
    """softmax(Q K^T) V, heads side by side: (rows, hidden)."""
    if part.first_only:
        queries, keys_values = part.projections
        query = ops.linear(ops.rows(x, 1), queries)
        key, value = ops.columns(ops.linear(x, keys_values), 2)
    else:
        query, key, value = ops.columns(ops.linear(x, part.projections[0]), 3)
    scores = ops.scores(ops.heads(query, part.heads), ops.heads(key, part.heads), part.bounds)
    weights = ops.softmax(scores, part.bounds)
    return ops.merge(ops.mix(weights, ops.heads(value, part.heads), part.bounds))


def pool(ops: Operations[T, W], head: Head, x: T, *, opened: bool = False) -> T:
    """(rows, hidden) -> (1, hidden): tanh of the first row's linear map, the first row, or the mean over real tokens.

    opened: the client learns the result next, so a mean hides its noise.
    """
    ops.stage("pooler")
    if isinstance(head, Pooler):
        return ops.tanh(ops.linear(ops.rows(x, 1), head.dense), head.interval)
    return ops.rows(x, 1) if head is Direct.first else ops.mean(x, opened=opened)
