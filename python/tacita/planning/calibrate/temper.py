"""Tempering: the few heads whose scores are too peaked for one exponential get their scores scaled down.

Softmax by exp, mean, 1/mean needs the means of all rows of an attention within about LIMIT nats: beyond, they
span more than the precision of a bootstrap. A head that exceeds it is nearly one-hot (MiniLM-L6 has one
that looks at the previous token with scores up to 52), so softmax(beta s) hardly differs from softmax(s):
there, beta = 0.25 brings 41 nats to 11. beta is folded
into the query's weights: no level, no operation. The plan's predicted error is taken against the untempered
model, so it contains the difference. Where softmax can be found in rounds (`approx.softmax`), these come
first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tacita.blocks.base import BEHIND, Attention, Powers
from tacita.checkpoint import Checkpoint
from tacita.models.registry import Config, attentions
from tacita.packings.specs import of_kind
from tacita.planning.calibrate.intervals import TEMPERATURES, Interval

# nats between the smallest and the largest mean of exponentials of an attention: 11 levels of 1/x
LIMIT = 11.5
# of reversed rows with fewer than the most rounds, in a model of one layer: padding sees nobody, and the
# noise of its sums, which are zero, is divided; so is that of any row by its mean, and all layers add theirs
LIMIT_BEHIND = 9.0

# without rounds, of an attention whose rounds refresh row sums alone: little for what they leave of the noise
LIMIT_INSIDE = 7.0

# the head that is to step down, and by how many nats the attention exceeds its limit
Exceeding = tuple[int, float]
# nats of a head after a row estimate; with the 1.4 by which its means may rise further, 12 levels of 1/x
LIMIT_ESTIMATED = 12.4
FAINTEST = math.exp(-12.5)  # row mean of what is bootstrapped: 11 times the noise of that
FAINTEST_AT_ONCE = math.exp(-22.0)  # of exponentials that are not, as far as their polynomial reaches
# of these in rounds, each of which divides by what noise leaves: MiniLM's first layer overflows at -19.4
FAINTEST_INSIDE = math.exp(-17.0)


# (attention, factor of its scores, head or None for all) -> log means: `Ranges.log_mean`, or of estimates
LogMean = Callable[[str, float, int | None], Interval]
Temperatures = Mapping[str, Sequence[float]]  # beta by attention and head


def untempered(config: Config) -> dict[str, tuple[float, ...]]:
    """Returns temperatures that change nothing: 1 for every head."""
    return {name: (1.0,) * a.heads for name, a in attentions(config).items()}


def choose_temperatures(
    log_mean: LogMean,
    config: Config,
    rounds: tuple[int, int] = (0, 0),
    estimated: Container[str] = (),
    inside: Container[str] = (),
) -> tuple[dict[str, tuple[float, ...]], dict[str, int]]:
    """(beta of every head, rounds of softmax of every attention that has exponentials). rounds: the fewest
    and the most. An attention takes the fewest with which it is within LIMIT: each costs a bootstrap of all
    its exponentials. Where the most do not suffice, the head with the largest means steps down through
    TEMPERATURES until it fits or no lower beta is left.

    An attention keeps 1 and no rounds that has no exponentials. It keeps 1 where scores do not fall with its
    own queries' weights: they are shared with another attention or normalised, or relative positions are
    added.

    estimated: attentions with a row estimate, whose constants lay every head's means about zero: a head of
    those exceeds LIMIT_ESTIMATED by itself, and steps down by itself. inside: attentions that refresh row
    sums alone, as of `CalibrationOptions`.
    """
    nodes = {n: a for n, a in attentions(config).items() if not isinstance(a.weights, Powers)}
    owners = Counter((a.query.name, a.query.part) for a in attentions(config).values())
    fixed = {n for n, a in nodes.items() if a.normed or a.relative or owners[a.query.name, a.query.part] > 1}
    betas, chosen = untempered(config), dict[str, int]()
    behind = LIMIT - LIMIT_BEHIND + math.log(max(len(nodes), 1))
    for name, a in nodes.items():
        for count in range(rounds[0], rounds[1] + 1):
            less = behind if a.reach == BEHIND and count < rounds[1] else 0.0
            if name in inside:
                most = LIMIT_ESTIMATED if name in estimated else LIMIT
                less = most - LIMIT_INSIDE if count < min(rounds[1], 1) else 0.0
            choice = _Betas(log_mean, name, 0.5**count, _alone if name in estimated else _together, less)
            betas[name], chosen[name] = choice.of(a.heads, fixed=name in fixed), count
            if choice.fits(betas[name]) and set(betas[name]) == {1.0}:
                break
    return betas, chosen


def enough_rounds(
    fewest: Mapping[str, int],
    nodes: Mapping[str, Any],
    most: int,
    inside: Container[str] = (),
    more: int = 0,
) -> dict[str, int]:
    """The rounds of each attention that needs any, with which its least row mean is not below FAINTEST:
    exponentials are bootstrapped, whose largest is 1 however far all row means lie below it. Without rounds
    they are not, nor `inside`. nodes: as calibrated. more: rounds of each beyond these, up to the most."""
    if more:
        first = enough_rounds(fewest, nodes, most, inside)
        fewest = {name: min(first.get(name, 0) + more, most) for name in fewest}

    def enough(name: str, count: int) -> bool:
        at_once = FAINTEST_INSIDE if count else FAINTEST_AT_ONCE
        least = at_once if not count or name in inside else FAINTEST
        return bool(nodes[name].means[count][0] >= least)

    chosen = {
        name: next((k for k in range(count, most) if enough(name, k)), most) for name, count in fewest.items()
    }
    return {name: count for name, count in chosen.items() if count}


def tempered(checkpoint: Checkpoint, temperatures: Temperatures) -> Checkpoint:
    """The checkpoint with each head's queries multiplied by its beta; name and hash stay the original's.

    Raises PlanError for a name that is no attention of the model.
    """
    if all(beta == 1.0 for betas in temperatures.values() for beta in betas):
        return checkpoint
    tensors, nodes = dict(checkpoint.tensors), attentions(checkpoint.config)
    for name, betas in temperatures.items():
        query = of_kind("temperatures", nodes, name, Attention).query
        factors = np.ones(query.outputs * query.part[1])
        first = query.part[0] * query.outputs
        factors[first : first + query.outputs] = np.repeat(
            np.asarray(betas, np.float64), nodes[name].head_size
        )
        tensors[f"{query.name}.weight"] = tensors[f"{query.name}.weight"] * factors[:, None]
        if query.bias:
            tensors[f"{query.name}.bias"] = tensors[f"{query.name}.bias"] * factors
    return replace(checkpoint, tensors=MappingProxyType(tensors))


def _together(intervals: Sequence[Interval]) -> Exceeding:
    """All heads with one shift: the one with the largest means reaches furthest from the lowest of all."""
    highest = max(range(len(intervals)), key=lambda head: intervals[head][1])
    return highest, intervals[highest][1] - min(lo for lo, _ in intervals) - LIMIT


def _alone(intervals: Sequence[Interval]) -> Exceeding:
    """Each head with a constant of its own: the widest."""
    widths = [hi - lo for lo, hi in intervals]
    widest = int(np.argmax(widths))
    return widest, widths[widest] - LIMIT_ESTIMATED


@dataclass(frozen=True)
class _Betas:
    """The factors of an attention's heads. share: of a score, what exp is applied to."""

    log_mean: LogMean
    name: str
    share: float
    exceeding: Callable[..., Exceeding]
    less: float = 0.0  # nats by which the limit is lower

    def of(self, heads: int, *, fixed: bool) -> tuple[float, ...]:
        """Chooses them; all 1 if fixed."""
        steps, betas = [0] * heads, [beta for beta in TEMPERATURES if beta * self.share in TEMPERATURES]
        while not fixed:
            head, excess = self._exceeding([betas[step] for step in steps])
            if excess <= 0.0 or steps[head] == len(betas) - 1:
                break
            steps[head] += 1
        return tuple(betas[step] for step in steps)

    def fits(self, betas: Sequence[float]) -> bool:
        """Whether the means of all heads are within the limit."""
        return self._exceeding(betas)[1] <= 0.0

    def _exceeding(self, betas: Sequence[float]) -> Exceeding:
        head, excess = self.exceeding(
            [self.log_mean(self.name, self.share * beta, head) for head, beta in enumerate(betas)]
        )
        return head, excess + self.less
