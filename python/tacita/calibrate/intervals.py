"""Ranges that were seen -> intervals of a node as a plan publishes them: widened, rounded outwards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tacita.approx.row_estimate import RowEstimate
from tacita.calibrate.calibration import (
    AttentionCalibration,
    FunctionCalibration,
    NodeCalibration,
    NormCalibration,
)
from tacita.calibrate.outwards import outwards, up
from tacita.calibrate.ranges import ROUNDS, Interval, Ranges
from tacita.errors import PlanError
from tacita.packings.specs import ATTENTION, FUNCTION, NORM

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
    other samples lie below and above these, by attention with a row estimate (`row_estimates.Found`)."""

    ranges: Ranges
    margin: float
    beyond: Mapping[str, Interval] = field(default_factory=dict)

    def of(self, name: str, kind: str, row: RowEstimate | None) -> NodeCalibration:
        """Of the node with this name. kind: see `packings.specs`. row: what an attention's scores are
        after."""
        if kind == ATTENTION:
            return self._attention(name, row)
        if kind == NORM:
            return self._norm(name)
        if kind == FUNCTION:
            return self._function(name)
        raise PlanError(f"calibrate: node {name} of kind {kind!r}", hint=f"{ATTENTION}, {NORM} or {FUNCTION}")

    def bound(self, name: str) -> float:
        """Of a recorded value."""
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
        if row is None or not row.is_linear:
            low, high = self._signed(name, FALL if row else 0.0)
            return outwards((low, max(high, self.ranges.interval(name)[1] + self._beyond(node)[1])))
        low, high = self._signed(name, FALL_LINEAR)[0], self.ranges.interval(name)[1]
        return outwards((low, high + self.margin * (RATIO[1] + RISE_LINEAR)))

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
        """Of exp((score - shift) / 2^k) over the real keys of a row."""
        seen = self._exp(node, self.ranges.log_mean(node, 0.5**k), shift, 0.5**k)
        if row is None or not row.is_linear:
            return positive(seen, self.margin, RISE if row else 0.0)
        return outwards((seen[0], positive(seen, self.margin, RISE_LINEAR)[1]))

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
    """By margin times its width on each side. fall: margins of the widened interval that the lower end falls
    besides."""
    lo, hi = interval
    pad = margin * max(hi - lo, np.finfo(np.float64).eps)
    return outwards((lo - pad - fall * margin * (hi - lo + 2.0 * pad), hi + pad))


def positive(interval: Interval, margin: float, rise: float = 0.0) -> Interval:
    """By a factor, as `calibrate.calibrate` says; both ends above 0. rise: margins, in nats, that the upper
    end rises besides."""
    lo, hi = interval
    factor = math.exp(margin * min(max(RATIO[0], math.log(hi) - math.log(lo)), RATIO[1]))
    return outwards((lo / factor, hi * factor * math.exp(rise * margin)))
