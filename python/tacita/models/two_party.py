"""BERT in the two-party mode: which weights are where, and the walk from hidden states to logits.

The party that owns the model builds the parts with arrays, the other one without: the walk is the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.errors import PlanError
from tacita.models.bert import POOLINGS, BertConfig, layer_prefix
from tacita.schemes import bumblebee
from tacita.two_party.base import (
    KINDS,
    AttentionBounds,
    Dense,
    EmbeddingBounds,
    Interval,
    Norm,
    NormBounds,
    Operations,
    T,
    W,
    unknown_kind,
)

Array = NDArray[np.float64]
Tensors = Mapping[str, Array] | None


@dataclass(frozen=True)
class LayerBounds:
    """Calibrated intervals of one layer, margin included. largest: magnitude of any hidden state."""

    attention: AttentionBounds
    activation: Interval
    norm1: NormBounds
    norm2: NormBounds
    largest: float


@dataclass(frozen=True)
class TwoPartyModel:
    """The parts in the order of the walk.

    front: None where the client embeds by itself. head: from hidden states to the pooled vector. classifier: None for a model
    without one.
    """

    front: bumblebee.Front | None
    layers: tuple[bumblebee.Layer, ...]
    head: bumblebee.Head
    classifier: Dense | None


def build(
    config: BertConfig,
    bounds: tuple[LayerBounds, ...],
    pooler: Interval | None,
    tensors: Tensors,
    hidden: tuple[EmbeddingBounds, int] | None = None,
) -> TwoPartyModel:
    """The parts of a model.

    pooler: interval of the argument of tanh, where there is one. tensors: by Hugging Face's names, or None at the client.
    hidden: bounds of the embedding and tokens, where that stays hidden. Raises PlanError for a pooling or an activation that
    this mode lacks.
    """
    classifier = _dense("classifier", config.hidden, config.classes, tensors) if config.classes else None
    layers = tuple(_layer(config, index, bound, tensors) for index, bound in enumerate(bounds))
    front = _front(config, *hidden, tensors) if hidden else None
    return TwoPartyModel(front, layers, _head(config, pooler, tensors), classifier)


def run(ops: Operations[T, W], model: TwoPartyModel, hidden: T) -> T:
    """Hidden states after the embedding, or rows of a hidden word table, (tokens, hidden) -> answer (1, outputs)."""
    if model.front:
        hidden = bumblebee.embed(ops, model.front, hidden)
    for index, part in enumerate(model.layers):
        hidden = bumblebee.layer(ops, part, hidden, f"layer {index}")
    pooled = bumblebee.pool(ops, model.head, hidden, opened=model.classifier is None)
    return ops.linear(pooled, model.classifier, opened=True) if model.classifier else pooled


def known_rows(config: BertConfig, tokens: int, tensors: Mapping[str, Array]) -> Array:
    """Position rows plus that of token type 0: what is added to the words of a single text."""
    rows = tensors["embeddings.position_embeddings.weight"][:tokens]
    return np.asarray(rows + tensors["embeddings.token_type_embeddings.weight"][0] if config.types else rows)


def _front(config: BertConfig, bounds: EmbeddingBounds, tokens: int, tensors: Tensors) -> bumblebee.Front:
    rows = None if tensors is None else known_rows(config, tokens, tensors)
    norm = _norm("embeddings.LayerNorm", config, bounds.norm, tensors) if bounds.norm else None
    return bumblebee.Front(rows, norm)


def _head(config: BertConfig, pooler: Interval | None, tensors: Tensors) -> bumblebee.Head:
    match config.pooling, pooler:
        case "pooler", (low, high):
            return bumblebee.Pooler(_dense("pooler.dense", config.hidden, config.hidden, tensors), (low, high))
        case "cls", _:
            return bumblebee.Direct.first
        case "mean", _:
            return bumblebee.Direct.mean
        case name, _:
            hint = f"supported: {', '.join(POOLINGS)}, the first with an interval"
            raise PlanError(f"two-party mode: pooling {name!r} with the interval {pooler}", hint=hint)


def _layer(config: BertConfig, index: int, bounds: LayerBounds, tensors: Tensors) -> bumblebee.Layer:
    name, hidden, wide = layer_prefix(index), config.hidden, config.intermediate
    if config.activation not in KINDS:
        raise unknown_kind(config.activation)
    scale, alone = 1.0 / math.sqrt(config.head_size), config.first_token and index == config.layers - 1
    query = _dense(f"{name}attention.self.query", hidden, hidden, tensors, scale)
    key = _dense(f"{name}attention.self.key", hidden, hidden, tensors)
    value = _dense(f"{name}attention.self.value", hidden, hidden, tensors)
    together = (_stacked("query_key_value", query, key, value),)
    projections = (query, _stacked("key_value", key, value)) if alone else together
    return bumblebee.Layer(
        heads=config.heads,
        projections=projections,
        attended=_dense(f"{name}attention.output.dense", hidden, hidden, tensors),
        norm1=_norm(f"{name}attention.output.LayerNorm", config, bounds.norm1, tensors),
        wide=_dense(f"{name}intermediate.dense", hidden, wide, tensors),
        narrow=_dense(f"{name}output.dense", wide, hidden, tensors),
        norm2=_norm(f"{name}output.LayerNorm", config, bounds.norm2, tensors),
        bounds=bounds.attention,
        activation=bounds.activation,
        kind=config.activation,
    )


def _dense(name: str, inputs: int, outputs: int, tensors: Tensors, scale: float = 1.0) -> Dense:
    if tensors is None:
        return Dense(name, inputs, outputs, None, None)
    return Dense(name, inputs, outputs, scale * tensors[f"{name}.weight"], scale * tensors[f"{name}.bias"])


def _stacked(name: str, *parts: Dense) -> Dense:
    """Several maps of one input as one."""
    outputs = sum(part.outputs for part in parts)
    weights = [part.weight for part in parts if part.weight is not None]
    biases = [part.bias for part in parts if part.bias is not None]
    if not weights:
        return Dense(name, parts[0].inputs, outputs, None, None)
    return Dense(name, parts[0].inputs, outputs, np.concatenate(weights), np.concatenate(biases))


def _norm(name: str, config: BertConfig, bounds: NormBounds, tensors: Tensors) -> Norm:
    gamma, beta = (None, None) if tensors is None else (tensors[f"{name}.weight"], tensors[f"{name}.bias"])
    return Norm(name, config.hidden, config.norm_eps, bounds, gamma, beta)
