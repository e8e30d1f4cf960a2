"""Ranges that were seen -> intervals of a node as a plan publishes them: widened, rounded outwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tacita.approx.softmax import RowEstimate
from tacita.blocks import sequence
from tacita.blocks.base import EVERYWHERE, Reach
from tacita.errors import PlanError
from tacita.packings.specs import ATTENTION, FUNCTION, NORM
from tacita.planning.calibrate.calibration import (
    BINS,
    ROUNDS,
    AttentionCalibration,
    FunctionCalibration,
    NodeCalibration,
    NormCalibration,
    round_outward,
    share,
    up,
)

# Observed ranges of a float run: minimum and maximum of every intermediate of every sample, by the
# reference's names.
#
# Sums of exponentials and unnormalised contexts are kept as logarithms, so that any shift can be applied
# afterwards and scores of any size do not overflow. Means over the real keys are kept beside the sums: of a
# mask with 1/n instead of 1. Samples are kept apart, so that some make the intervals and others test them.

Array = NDArray[np.float64]
Interval = tuple[float, float]
Estimate = Callable[[str, Array], Array | None]  # attention's name, its input -> (heads, tokens)
INPUT = "input"  # name of the hidden states that a model starts from, which belong to no node

EMPTY = -600.0  # log sum of a query that sees no real key is less (`blocks.floats`)
# factors of the scores for which means are kept, by head
TEMPERATURES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.35, 0.25, 0.125)


@dataclass(frozen=True)
class Ranges:
    """names: index of each in values. values: (samples, names, 2), smallest and largest. rows: token rows of
    each sample.
    heads: of each attention. inputs: of functions by node, some of each sample's, where a density was asked
    for.
    """

    heads: Mapping[str, int]
    names: Mapping[str, int]
    values: Array
    rows: tuple[int, ...]
    inputs: tuple[Mapping[str, Array], ...]

    @staticmethod
    def joined(parts: Sequence[Ranges]) -> Ranges:
        """Joins the samples of all parts, in their order."""
        values = np.concatenate([part.values for part in parts])
        rows = tuple(count for part in parts for count in part.rows)
        inputs = tuple(one for part in parts for one in part.inputs)
        return Ranges(parts[0].heads, parts[0].names, values, rows, inputs)

    def extended(self, more: Mapping[str, Array]) -> Ranges:
        """Returns the ranges with further ones. more: (samples, 2) by name."""
        names = {**self.names, **{name: len(self.names) + place for place, name in enumerate(more)}}
        values = np.concatenate([self.values, *(each[:, None] for each in more.values())], axis=1)
        return Ranges(self.heads, names, values, self.rows, self.inputs)

    def of(self, samples: Sequence[int]) -> Ranges:
        """Returns the ranges of some of the samples."""
        rows, inputs = tuple(self.rows[i] for i in samples), tuple(self.inputs[i] for i in samples)
        return Ranges(self.heads, self.names, self.values[list(samples)], rows, inputs)

    def each(self, name: str) -> Array:
        """(samples, 2): smallest and largest value of each sample."""
        return self.values[:, self.names[name]]

    def interval(self, name: str) -> Interval:
        """Smallest and largest value seen."""
        return _span(self.each(name))

    def bound(self, name: str) -> float:
        """Largest magnitude seen."""
        return float(np.abs(self.each(name)).max())

    def each_log_mean(self, node: str, temperature: float, head: int | None = None) -> Array:
        """(samples, 2): range of the log of the mean over real keys of exp(temperature * score), of one head
        or of all."""
        chosen = range(self.heads[node]) if head is None else (head,)
        by_head = np.stack([self.each(f"{node}.log_mean.{temperature}.{h}") for h in chosen])
        return np.stack([by_head[..., 0].min(axis=0), by_head[..., 1].max(axis=0)], axis=-1)

    def log_mean(self, node: str, temperature: float, head: int | None = None) -> Interval:
        """The same over all samples."""
        return _span(self.each_log_mean(node, temperature, head))

    def density(self, node: str, interval: Interval) -> tuple[float, ...]:
        """Share of a function's inputs of real tokens in each of BINS equal parts of the interval, as half
        powers of two; empty where they were not kept."""
        values = [inputs[node] for inputs in self.inputs if node in inputs]
        if not values:
            return ()
        counts, _ = np.histogram(np.concatenate(values), BINS, interval)
        return tuple(share(float(c)) for c in counts / counts.sum())


class Watch:
    """Collects (name, value) pairs of `checkpoint.reference` for one sample; pass `see` as its record.

    heads, reaches: of each attention. mask: (tokens,). estimate: what a circuit takes from the scores of
    every row before exp (`approx.softmax`), if anything. kept: how many inputs of which functions are
    kept for the density, about. by_row: attentions whose scores and sums `RowSamples.completed` adds.
    """

    def __init__(
        self,
        heads: Mapping[str, int],
        mask: Array,
        estimate: Estimate | None = None,
        kept: Mapping[str, int] = MappingProxyType({}),
        reaches: Mapping[str, Reach] = MappingProxyType({}),
        by_row: Container[str] = (),
    ) -> None:
        self._heads, self._mask, self._estimate, self._kept = heads, mask, estimate, kept
        self._by_row = by_row
        self._reaches = {name: reach for name, reach in reaches.items() if reach != EVERYWHERE}
        self._taken: Array | None = None  # from the scores of the present attention: (heads, tokens)
        self._log_sums: Array = np.zeros((0, 0))  # of the present attention: (heads, tokens)
        self._inputs: dict[str, Array] = {}
        self._seen: dict[str, Interval] = {}

    def ranges(self) -> Ranges:
        """The ranges of the one sample that was watched."""
        names = {name: index for index, name in enumerate(self._seen)}
        return Ranges(
            self._heads, names, np.array([list(self._seen.values())]), (len(self._mask),), (self._inputs,)
        )

    def see(self, name: str, value: Array) -> None:
        """Keep the range of `name`. From scores also that of `log_mean`; from context also log_mixed and
        log_mixed_mean, of |sum_j w exp(score_ij) V_j| with weights w = 1 and 1/n.
        """
        node, _, key = name.rpartition(".")
        if node in self._by_row and key in ("scores", "log_sum_exp", "context"):
            if key == "context":
                self._keep(name, value)
            return
        if key == INPUT and self._estimate is not None:
            self._taken = self._estimate(node, value)
        elif key in ("scores", "log_sum_exp") and self._taken is not None:
            value = value - (self._taken[..., None] if key == "scores" else self._taken)
        limited = node in self._reaches
        self._keep(name, value[value > EMPTY] if limited and key == "log_sum_exp" else value)
        if key == "scores" and limited:
            self._means_within(node, value)
        elif key == "scores":
            self._means(node, value[:, :, self._mask > 0.0])
        elif key == "log_sum_exp":
            self._log_sums = value
        elif key == "argument" and node in self._kept:
            real = value[self._mask > 0.0] if len(value) == len(self._mask) else value
            self._inputs[node] = _sampled(real, self._kept[node])
        elif key == "context":
            mixed = log_mixed(value, self._log_sums)
            self._keep(f"{node}.log_mixed", mixed)
            self._keep(f"{node}.log_mixed_mean", mixed - np.log(self._mask.sum()))

    def _keep(self, name: str, value: Array) -> None:
        self._seen[name] = (float(value.min()), float(value.max()))

    def _means(self, node: str, scores: Array) -> None:
        for t, logs in zip(TEMPERATURES, scaled_log_means(scores), strict=True):
            for head, values in enumerate(logs):
                self._keep(f"{node}.log_mean.{t}.{head}", values)

    def _means_within(self, node: str, scores: Array) -> None:
        """The same over the keys that a query sees, still divided by the number of real ones; of the queries
        that see any."""
        visible = sequence.visible(self._mask, scores.shape[1:], self._reaches[node])
        rows, count = visible.any(axis=-1), self._mask.sum()
        hidden = np.where(visible[rows] > 0.0, scores[:, rows], -np.inf)
        top = hidden.max(axis=-1, keepdims=True)
        for t in TEMPERATURES:
            logs = np.log(np.exp(t * (hidden - top)).sum(axis=-1) / count) + t * top[..., 0]
            for head, values in enumerate(logs):
                self._keep(f"{node}.log_mean.{t}.{head}", values)


def log_mixed(context: Array, log_sums: Array) -> Array:
    """Largest log |context| + log sum of each head and token: (heads, tokens), as the log sums are."""
    heads, tokens = log_sums.shape
    largest = np.abs(context.reshape(tokens, heads, -1)).max(axis=-1)
    return np.asarray(np.log(np.maximum(largest, np.finfo(np.float64).tiny)).T + log_sums)


def scaled_log_means(scores: Array) -> Array:
    """(heads, queries, keys) -> (factors, heads, queries): logs of the means over keys of exp(factor *
    score), for all TEMPERATURES."""
    top = scores.max(axis=-1, keepdims=True)
    below = scores - top
    return np.stack([np.log(np.exp(t * below).mean(axis=-1)) + t * top[..., 0] for t in TEMPERATURES])


def _span(each: Array) -> Interval:
    return float(each[:, 0].min()), float(each[:, 1].max())


def _sampled(values: Array, count: int) -> Array:
    """About so many of the values, in the same distance; an odd one, so that all features take part."""
    flat = values.ravel()
    return flat[:: (len(flat) // count) | 1]


# margins more below the scores after a row estimate, which is too large on rows unlike the samples; a linear
# one is so by less
FALL, FALL_LINEAR = 5.0, 1.0
# margins (nats) more above the means after one: 1/x diverges there and only saturates below; a linear one has
# room above in place of room below
RISE, RISE_LINEAR = 5.0, 8.0
RATIO = 2.0, 6.0  # least and most nats that a positive interval is taken to span when it is widened
# nats: exponentials are cut off at e^-NATS and e^NATS, so that they stay doubles when they are widened; no
# approximation of a circuit reaches so far, and two parties do not need them
NATS = 690.0


@dataclass(frozen=True)
class Intervals:
    """The intervals of these samples at a margin (see `calibrate`). beyond: nats by which the log means of
    other samples lie below and above these, by attention with a row estimate (`AttentionRows.beyond`)."""

    ranges: Ranges
    margin: float
    beyond: Mapping[str, Interval] = field(default_factory=dict)

    def of(self, name: str, kind: str, row: RowEstimate | None) -> NodeCalibration:
        """Returns the intervals of the node `name`. kind: see `packings.specs`. row: the estimate that an
        attention's scores are after."""
        if kind == ATTENTION:
            return self._attention(name, row)
        if kind == NORM:
            return self._norm(name)
        if kind == FUNCTION:
            return self._function(name)
        raise PlanError(f"calibrate: node {name} of kind {kind!r}", hint=f"{ATTENTION}, {NORM} or {FUNCTION}")

    def bound(self, name: str) -> float:
        """Returns the widened bound of a recorded value."""
        return self._raised(self.ranges.bound(name))

    def _attention(self, node: str, row: RowEstimate | None) -> AttentionCalibration:
        scores = self._scores(node, row)
        shift = scores[1]
        return AttentionCalibration(
            input=self.bound(f"{node}.input"),
            scores=scores,
            shift=shift,
            sums=positive(self._exp(node, self.ranges.interval(f"{node}.log_sum_exp"), shift), self.margin),
            mixed=self._mixed(node, "log_mixed", shift),
            means=tuple(self._means(node, k, shift, row) for k in ROUNDS),
            mixed_mean=self._mixed(node, "log_mixed_mean", shift),
            context=self.bound(f"{node}.context"),
        )

    def _scores(self, node: str, row: RowEstimate | None) -> Interval:
        """After a linear estimate the upper end rises like that of the means: a score exceeds the log of its
        row's mean by no more than that of the number of keys, however far down the others reach. The shift
        follows from it, and each nat of that is one of precision."""
        name = f"{node}.scores"
        high = self.ranges.interval(name)[1] + self._beyond(node)[1]
        if row is None or not row.is_linear:
            low, widened = self._signed(name, FALL if row else 0.0)
            return round_outward((low, max(widened, high)))
        low, _ = self._signed(name, FALL_LINEAR)
        return round_outward((low, high + self.margin * (RATIO[1] + RISE_LINEAR)))

    def _norm(self, node: str) -> NormCalibration:
        return NormCalibration(
            sum=self.bound(f"{node}.sum"),
            centred=self.bound(f"{node}.centred"),
            variance=positive(self.ranges.interval(f"{node}.variance"), self.margin),
            result=self.bound(f"{node}.result"),
        )

    def _function(self, node: str) -> FunctionCalibration:
        argument = self._signed(f"{node}.argument")
        density = self.ranges.density(node, argument)
        gate = (f"{node}.factor", f"{node}.product")
        bounds = [self.bound(name) if name in self.ranges.names else 0.0 for name in gate]
        return FunctionCalibration(argument, density, self.bound(f"{node}.result"), *bounds)

    def _signed(self, name: str, fall: float = 0.0) -> Interval:
        return signed(self.ranges.interval(name), self.margin, fall)

    def _mixed(self, node: str, key: str, shift: float) -> float:
        return self._raised(self._exp(node, self.ranges.interval(f"{node}.{key}"), shift)[1])

    def _means(self, node: str, k: int, shift: float, row: RowEstimate | None) -> Interval:
        """Returns the interval of the means of exp((score - shift) / 2^k) over the real keys of a row."""
        interval = self._exp(node, self.ranges.log_mean(node, 0.5**k), shift, 0.5**k)
        if row is None or not row.is_linear:
            return positive(interval, self.margin, RISE if row else 0.0)
        return round_outward((interval[0], positive(interval, self.margin, RISE_LINEAR)[1]))

    def _exp(self, node: str, logs: Interval, shift: float, factor: float = 1.0) -> Interval:
        """Returns the exponentials of the logs, widened as far as other samples lie beyond them, less the
        shift. factor: of the scores."""
        below, above = self._beyond(node)
        ends = logs[0] - factor * (below + shift), logs[1] + factor * (above - shift)
        low, high = (math.exp(min(max(end, -NATS), NATS)) for end in ends)
        return low, high

    def _beyond(self, node: str) -> Interval:
        return self.beyond.get(node, (0.0, 0.0))

    def _raised(self, largest: float) -> float:
        return up(largest * (1.0 + 2.0 * self.margin))


def signed(interval: Interval, margin: float, fall: float = 0.0) -> Interval:
    """Widens by margin times the width on each side. fall: how much lower the lower end goes besides, in
    margins of the widened interval."""
    lo, hi = interval
    pad = margin * max(hi - lo, np.finfo(np.float64).eps)
    return round_outward((lo - pad - fall * margin * (hi - lo + 2.0 * pad), hi + pad))


def positive(interval: Interval, margin: float, rise: float = 0.0) -> Interval:
    """Widens by a factor, as `planning.calibrate.calibrate` says; both ends are above 0. rise: margins, in
    nats, by which the upper end rises besides."""
    lo, hi = interval
    factor = math.exp(margin * min(max(RATIO[0], math.log(hi) - math.log(lo)), RATIO[1]))
    return round_outward((lo / factor, hi * factor * math.exp(rise * margin)))
