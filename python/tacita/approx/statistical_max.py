"""The statistical maximum of a row of scores (ARION, equation 4): a shift for exp that follows the row.

    shift_i = mean_j s_ij + kappa (alpha + beta var_j s_ij),   alpha + beta v ~ sqrt(v) on the calibrated variances.

The paper takes kappa = 0.944 sqrt(ln m), 2.08 for m = 128 only, and 1.25 + 0.1 v for [0, 100]. Here both are fitted to the rows
of the calibration set, with means and variances over the real keys, so that neither depends on the padding: kappa is the
least for which no shifted score exceeds the upper end of the stated interval. Softmax does not depend on the shift; it may
be as coarse as it likes while shifted scores stay where exp is fitted. The encrypted form is in `blocks.statistical_shift`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, FitError, Interval

__all__ = ["ShiftSpec", "fit", "shift", "spec_from_dict"]

LEAST = 1e-6  # of kappa and of the largest variance: the encrypted form divides by the root of kappa beta


@dataclass(frozen=True)
class ShiftSpec:
    """shift = mean + kappa (alpha + beta variance). interval: of the shifted scores on the calibration set."""

    kappa: float
    alpha: float
    beta: float
    interval: Interval

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `spec_from_dict` gives back an equal spec, bit for bit."""
        return asdict(self) | {"interval": list(self.interval)}


def spec_from_dict(data: Mapping[str, Any]) -> ShiftSpec:
    """Inverse of ShiftSpec.to_dict. Errors: FitError on missing or unknown fields."""
    if set(data) != {"kappa", "alpha", "beta", "interval"}:
        raise FitError(f"statistical maximum from_dict: got fields {sorted(data)}", hint="made by another version?")
    lo, hi = data["interval"]
    return ShiftSpec(float(data["kappa"]), float(data["alpha"]), float(data["beta"]), (float(lo), float(hi)))


def shift(scores: Array, mask: Array, spec: ShiftSpec) -> Array:
    """Scores (..., keys), mask (keys,) of 0/1 -> shifts (...,)."""
    mean, variance = _moments(scores, mask)
    return np.asarray(mean + spec.kappa * (spec.alpha + spec.beta * variance))


def fit(samples: Iterable[tuple[Array, Array]], interval: Interval) -> ShiftSpec:
    """samples: (scores (..., keys), mask (keys,)) of the calibration set. interval: wanted for the shifted scores.

    Cost: a pass over the samples, whose rows' extremes are kept. Errors: FitError when no kappa keeps all in the interval.
    """
    fitting.check_interval("statistical maximum", interval)
    rows = np.concatenate([_extremes(scores, mask) for scores, mask in samples], axis=1)
    mean, variance, low, high = rows
    alpha, beta = _root_line(float(variance.min()), max(float(variance.max()), LEAST))
    line = alpha + beta * variance
    kappa = max(LEAST, float(np.max((high - mean - interval[1]) / line)))
    moved = mean + kappa * line
    found = float(np.min(low - moved)), float(np.max(high - moved))
    if found[0] < interval[0]:
        raise FitError(
            f"statistical maximum fit: shifted scores reach {found[0]:.6g}, below [{interval[0]:.6g}, {interval[1]:.6g}]",
            hint=f"with kappa = {kappa:.4g} the interval must begin there: widen it, or move its upper end up",
        )
    return ShiftSpec(kappa, alpha, beta, found)


def _moments(scores: Array, mask: Array) -> tuple[Array, Array]:
    weights = mask / mask.sum()
    mean = scores @ weights
    return mean, scores**2 @ weights - mean**2


def _extremes(scores: Array, mask: Array) -> Array:
    """(4, rows): mean, variance, least and largest score over the real keys."""
    mean, variance = _moments(scores, mask)
    real = scores[..., mask > 0.0]
    return np.stack([mean.ravel(), variance.ravel(), real.min(axis=-1).ravel(), real.max(axis=-1).ravel()])


def _root_line(low: float, high: float) -> tuple[float, float]:
    """Minimax line of sqrt on [low, high]: the chord, raised by half of its largest distance."""
    a, b = np.sqrt(max(low, 0.0)), np.sqrt(high)
    slope = 1.0 / (a + b)
    touching = 0.25 / slope**2  # where sqrt has the slope of the chord
    gap = np.sqrt(touching) - (a + slope * (touching - a * a))
    return float(a - slope * a * a + 0.5 * gap), float(slope)
