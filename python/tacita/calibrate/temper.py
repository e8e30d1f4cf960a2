"""Tempering: the few heads whose scores are too peaked for one exponential get their scores scaled down.

Softmax by exp, mean, 1/mean needs the means of all rows of an attention within about LIMIT nats: beyond, they
span more than the precision of a bootstrap. A head that exceeds it is nearly one-hot (MiniLM-L6 has one
that looks at the previous token with scores up to 52), so softmax(beta s) hardly differs from softmax(s):
there, beta = 0.25 brings 41 nats to 11. beta is folded
into the query's weights: no level, no operation. The plan's predicted error is taken against the untempered
model, so it contains the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tacita.blocks.base import Attention, Powers
from tacita.calibrate.ranges import TEMPERATURES, Ranges
from tacita.checkpoint import Checkpoint
from tacita.models.registry import Config, attentions
from tacita.packings.specs import of_kind

LIMIT = (
    11.5  # nats between the smallest and the largest mean of exponentials of an attention: 11 levels of 1/x
)

Temperatures = Mapping[str, Sequence[float]]  # beta by attention and head


def untempered(config: Config) -> dict[str, tuple[float, ...]]:
    """1 for every head."""
    return {name: (1.0,) * a.heads for name, a in attentions(config).items()}


def choose_temperatures(ranges: Ranges, config: Config, share: float = 1.0) -> dict[str, tuple[float, ...]]:
    """beta of every head: 1 unless the attention exceeds LIMIT; then the head with the largest means steps
    down through TEMPERATURES until it fits or no lower beta is left. An attention without exponentials keeps
    1.

    share: of a score, what exp is applied to (1/2 in two phases, `approx.softmax`).
    """
    return {name: _betas(ranges, name, a, share) for name, a in attentions(config).items()}


def tempered(checkpoint: Checkpoint, temperatures: Temperatures) -> Checkpoint:
    """The checkpoint with each head's queries multiplied by its beta; name and hash stay the original's.

    Raises PlanError for a name that is no attention of the model.
    """
    if all(beta == 1.0 for betas in temperatures.values() for beta in betas):
        return checkpoint
    tensors, known = dict(checkpoint.tensors), attentions(checkpoint.config)
    for name, betas in temperatures.items():
        query = of_kind("temperatures", known, name, Attention).query
        factors = np.repeat(np.asarray(betas, dtype=np.float64), known[name].head_size)
        tensors[f"{query.name}.weight"] = tensors[f"{query.name}.weight"] * factors[:, None]
        tensors[f"{query.name}.bias"] = tensors[f"{query.name}.bias"] * factors
    return replace(checkpoint, tensors=MappingProxyType(tensors))


def _betas(ranges: Ranges, name: str, a: Attention, share: float) -> tuple[float, ...]:
    betas = [beta for beta in TEMPERATURES if beta * share in TEMPERATURES]
    steps = [0] * a.heads
    while not isinstance(a.weights, Powers):
        intervals = [ranges.log_mean(name, share * betas[step], head) for head, step in enumerate(steps)]
        highest = max(range(a.heads), key=lambda head: intervals[head][1])
        span = intervals[highest][1] - min(lo for lo, _ in intervals)
        if span <= LIMIT or steps[highest] == len(betas) - 1:
            break
        steps[highest] += 1
    return tuple(betas[step] for step in steps)
