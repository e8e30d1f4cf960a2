"""Ranges that were seen -> intervals of a node as a plan publishes them: widened, rounded outwards."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacita.calibrate.calibration import (
    AttentionCalibration,
    FunctionCalibration,
    NodeCalibration,
    NormCalibration,
)
from tacita.calibrate.outwards import outwards, up
from tacita.calibrate.ranges import ROUNDS, Interval, Ranges
from tacita.errors import PlanError
from tacita.packings.columns.cells.row_estimate import RowEstimate
from tacita.packings.specs import ATTENTION, FUNCTION, NORM

# margins more below the scores after a row estimate, which is too large on rows unlike the samples
FALL = 5.0
RISE = 5.0  # margins (nats) more above the means after one: 1/x diverges there and only saturates below


@dataclass(frozen=True)
class Intervals:
    """Of these samples at a margin (see `calibrate`)."""

    ranges: Ranges
    margin: float

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
        scores = self._signed(f"{node}.scores", FALL if row else 0.0)
        shift = scores[1]
        return AttentionCalibration(
            input=self.bound(f"{node}.input"),
            scores=scores,
            shift=shift,
            sums=positive(_exp(self.ranges.interval(f"{node}.log_sum_exp"), shift), self.margin),
            mixed=self._mixed(f"{node}.log_mixed", shift),
            means=tuple(self._means(node, k, shift, RISE if row else 0.0) for k in ROUNDS),
            mixed_mean=self._mixed(f"{node}.log_mixed_mean", shift),
            context=self.bound(f"{node}.context"),
        )

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
        return FunctionCalibration(argument, density, self.bound(f"{node}.result"))

    def _signed(self, name: str, fall: float = 0.0) -> Interval:
        return signed(self.ranges.interval(name), self.margin, fall)

    def _mixed(self, name: str, shift: float) -> float:
        return self._raised(math.exp(self.ranges.interval(name)[1] - shift))

    def _means(self, node: str, k: int, shift: float, rise: float) -> Interval:
        """Of exp((score - shift) / 2^k) over the real keys of a row."""
        return positive(_exp(self.ranges.log_mean(node, 0.5**k), shift / 2**k), self.margin, rise)

    def _raised(self, largest: float) -> float:
        return up(largest * (1.0 + 2.0 * self.margin))


def _exp(logs: Interval, shift: float) -> Interval:
    return math.exp(logs[0] - shift), math.exp(logs[1] - shift)


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
    factor = math.exp(margin * min(max(2.0, math.log(hi / lo)), 6.0))
    return outwards((lo / factor, hi * factor * math.exp(rise * margin)))
