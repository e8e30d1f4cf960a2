"""BERT in the two-party mode: which weights are where, and the walk from hidden states to logits.

The party that owns the model builds the parts with arrays, the other one without: the walk is the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.backends.two_party.base import AttentionBounds, Dense, Interval, Norm, NormBounds, Operations, T, W
from tacita.models.bert import BertConfig, layer_prefix
from tacita.schemes import bumblebee

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
    """The parts in the order of the walk. pooler: None for the mean. classifier: None for a model without one."""

    layers: tuple[bumblebee.Layer, ...]
    pooler: bumblebee.Pooler | None
    classifier: Dense | None


def build(
    config: BertConfig, bounds: tuple[LayerBounds, ...], pooler: Interval | None, tensors: Tensors
) -> TwoPartyModel:
    """The parts of a model. tensors: by Hugging Face's names, or None at the client."""
    top = None
    if config.pooling == "cls":
        assert pooler is not None
        top = bumblebee.Pooler(_dense("pooler.dense", config.hidden, config.hidden, tensors), pooler)
    classifier = _dense("classifier", config.hidden, config.classes, tensors) if config.classes else None
    layers = tuple(_layer(config, index, bound, tensors) for index, bound in enumerate(bounds))
    return TwoPartyModel(layers, top, classifier)


def run(ops: Operations[T, W], model: TwoPartyModel, hidden: T) -> T:
    """Hidden states after the embedding (tokens, hidden) -> answer (1, outputs)."""
    last = len(model.layers) - 1
    for index, part in enumerate(model.layers):
        alone = model.pooler is not None and index == last
        hidden = bumblebee.layer(ops, part, hidden, f"layer {index}", first_only=alone)
    pooled = bumblebee.pool(ops, model.pooler, hidden)
    return ops.linear(pooled, model.classifier) if model.classifier else pooled


def _layer(config: BertConfig, index: int, bounds: LayerBounds, tensors: Tensors) -> bumblebee.Layer:
    name, hidden, wide = layer_prefix(index), config.hidden, config.intermediate
    scale = 1.0 / math.sqrt(config.head_size)
    query = _dense(f"{name}attention.self.query", hidden, hidden, tensors, scale)
    key = _dense(f"{name}attention.self.key", hidden, hidden, tensors)
    value = _dense(f"{name}attention.self.value", hidden, hidden, tensors)
    return bumblebee.Layer(
        heads=config.heads,
        query=query,
        key_value=_stacked("key_value", key, value),
        all=_stacked("query_key_value", query, key, value),
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
