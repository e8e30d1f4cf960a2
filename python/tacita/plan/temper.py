"""Tempering: the few heads whose scores are too peaked for one exponential get their scores scaled down.

Softmax by exp, mean, 1/mean needs the means of all rows of a layer within about LIMIT nats: beyond, they
span more than the precision of a bootstrap. A head that exceeds it is nearly one-hot (MiniLM-L6 has one
that looks at the previous token with scores up to 52), so softmax(beta s) hardly differs from softmax(s):
there, beta = 0.25 brings 41 nats to 11. beta is folded
into the query's weights: no level, no operation. The plan's predicted error is taken against the untempered
model, so it contains the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tacita.checkpoint import Checkpoint
from tacita.models.bert import BertConfig, layer_prefix
from tacita.plan.ranges import TEMPERATURES, Ranges

LIMIT = 11.5  # nats between the smallest and the largest mean of exponentials of a layer: 11 levels of 1/x

Temperatures = Sequence[Sequence[float]]  # beta by layer and head


def choose_temperatures(ranges: Ranges, config: BertConfig) -> tuple[tuple[float, ...], ...]:
    """beta of every head: 1 unless the layer exceeds LIMIT; then the head with the largest means steps down
    through TEMPERATURES until the layer fits or no lower beta is left. A model without exponentials keeps 1."""
    if config.retrained.bpmax:
        return ((1.0,) * config.heads,) * config.layers
    return tuple(_layer(ranges, f"layer{i}.attention", config.heads) for i in range(config.layers))


def tempered(checkpoint: Checkpoint, temperatures: Temperatures) -> Checkpoint:
    """The checkpoint with each head's queries multiplied by its beta; name and hash stay the original's."""
    if all(beta == 1.0 for layer in temperatures for beta in layer):
        return checkpoint
    tensors = dict(checkpoint.tensors)
    for i, layer in enumerate(temperatures):
        factors = np.repeat(np.asarray(layer, dtype=np.float64), checkpoint.config.head_size)
        name = f"{layer_prefix(i)}attention.self.query"
        tensors[f"{name}.weight"] = tensors[f"{name}.weight"] * factors[:, None]
        tensors[f"{name}.bias"] = tensors[f"{name}.bias"] * factors
    return replace(checkpoint, tensors=MappingProxyType(tensors))


def _layer(ranges: Ranges, layer: str, heads: int) -> tuple[float, ...]:
    steps = [0] * heads
    while True:
        intervals = [ranges.log_mean(layer, TEMPERATURES[step], head) for head, step in enumerate(steps)]
        highest = max(range(heads), key=lambda head: intervals[head][1])
        span = intervals[highest][1] - min(lo for lo, _ in intervals)
        if span <= LIMIT or steps[highest] == len(TEMPERATURES) - 1:
            return tuple(TEMPERATURES[step] for step in steps)
        steps[highest] += 1
