"""ARION's statistical maximum: a shift for exp that follows the row (equation 4), fitted,
and its encrypted form.

    shift_i = mean_j s_ij + offset + slope var_j s_ij

The paper has offset + slope v = kappa (1.25 + 0.1 v), kappa = 0.944 sqrt(ln m): 2.08, for m = 128 only.
Softmax does not depend on the shift, so the best one is not near the maximum but near the log of the mean of
the exponentials: then the row means, whose inverse must be found, hardly vary. The slope is the one that
makes their range least on the calibration set, the offset the least that keeps all shifted scores below the
upper end of a stated interval. Means and variances are over the real keys, so that nothing depends on the
padding.

Encrypted it is a shift per query on interleaved diagonals as in `attention`: P[G][B] holds, at slot t, the
score of query t - G with key t + B. Sums over the keys of a query meet at slot t of sum_G rot_G(sum_B
P[G][B]); the shift goes back to P[G][.] by rot_-G. With encrypted masks (weights 1/n at the n real keys,
rotated by B) the moments are those of the real keys, whatever the padding; without, all keys count alike, as
in the paper (Algorithms 2 and 3). The second moment takes the place of the paper's sum of squares of
differences: no way back between the two sums, so 3 (giants - 1) rotations in place of 4 giants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import reduce
from math import sqrt
from typing import Any

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx.fit import Array, FitError, Interval
from tacita.slots.base import Backend, Ct

__all__ = ["ShiftSpec", "fit", "papers", "shift", "spec_from_dict"]

LEAST = 1e-6  # of the slope: the encrypted form divides by its root
MOST = 1.0  # of the slope: the log of the mean of exponentials of a normal variable has 1/2
ROUNDS = 80  # of the search for the slope


@dataclass(frozen=True)
class ShiftSpec:
    """shift = mean + offset + slope * variance.

    scores: interval of the shifted scores. means: of the row means of their exponentials. Both on the
    calibration set.
    """

    offset: float
    slope: float
    scores: Interval
    means: Interval

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `spec_from_dict` gives back an equal spec, bit for bit."""
        return asdict(self) | {"scores": list(self.scores), "means": list(self.means)}


def spec_from_dict(data: Mapping[str, Any]) -> ShiftSpec:
    """Inverse of ShiftSpec.to_dict. Errors: FitError on missing or unknown fields."""
    if set(data) != {f.name for f in fields(ShiftSpec)}:
        raise FitError(
            f"statistical maximum from_dict: got fields {sorted(data)}", hint="made by another version?"
        )
    (low, high), (least, most) = data["scores"], data["means"]
    return ShiftSpec(
        float(data["offset"]), float(data["slope"]), (float(low), float(high)), (float(least), float(most))
    )


def shift(scores: Array, mask: Array, spec: ShiftSpec) -> Array:
    """Scores (..., keys), mask (keys,) of 0/1 -> shifts (...,)."""
    mean, variance = _moments(scores, mask)
    return np.asarray(mean + spec.offset + spec.slope * variance)


def fit(samples: Iterable[tuple[Array, Array]], interval: Interval) -> ShiftSpec:
    """samples: (scores (..., keys), mask (keys,)) of the calibration set. interval: wanted for the shifted
    scores.

    Cost: a pass over the samples, of which five numbers a row are kept. Errors: FitError when the interval is
    too narrow.
    """
    fitting.check_interval("statistical maximum", interval)
    rows = _summary(samples)
    slope = _best_slope(rows)
    offset = float(np.max(rows.high - rows.mean - slope * rows.variance)) - interval[1]
    spec = _measured(rows, offset, slope)
    if spec.scores[0] < interval[0]:
        raise FitError(
            f"statistical maximum fit: shifted scores reach {spec.scores[0]:.6g}, "
            f"below [{interval[0]:.6g}, {interval[1]:.6g}]",
            hint="widen the interval",
        )
    return spec


def papers(samples: Iterable[tuple[Array, Array]], tokens: int, factor: float = 0.944) -> ShiftSpec:
    """ARION's constants for rows of `tokens` keys, with what they make of the samples."""
    kappa = factor * math.sqrt(math.log(tokens))
    return _measured(_summary(samples), 1.25 * kappa, 0.1 * kappa)


@dataclass(frozen=True)
class _Rows:
    """Figures by row, over the real keys: mean, variance, least and largest score, log of the mean of
    exponentials."""

    mean: Array
    variance: Array
    low: Array
    high: Array
    log_mean: Array


def _summary(samples: Iterable[tuple[Array, Array]]) -> _Rows:
    return _Rows(*np.concatenate([_of_sample(scores, mask) for scores, mask in samples], axis=1))


def _of_sample(scores: Array, mask: Array) -> Array:
    mean, variance = _moments(scores, mask)
    real = scores[..., mask > 0.0]
    low, high = real.min(axis=-1), real.max(axis=-1)
    log_mean = high + np.log(np.exp(real - high[..., None]).mean(axis=-1))
    return np.stack([part.ravel() for part in (mean, variance, low, high, log_mean)])


def _moments(scores: Array, mask: Array) -> tuple[Array, Array]:
    weights = mask / mask.sum()
    mean = scores @ weights
    return mean, scores**2 @ weights - mean**2


def _best_slope(rows: _Rows) -> float:
    """Least range of log_mean - mean - slope * variance, which is convex in the slope: search by thirds."""

    def width(slope: float) -> float:
        return float(np.ptp(rows.log_mean - rows.mean - slope * rows.variance))

    low, high = LEAST, MOST
    for _ in range(ROUNDS):
        a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, b) if width(a) <= width(b) else (a, high)
    return 0.5 * (low + high)


def _measured(rows: _Rows, offset: float, slope: float) -> ShiftSpec:
    moved = rows.mean + offset + slope * rows.variance
    means = np.exp(rows.log_mean - moved)
    return ShiftSpec(
        offset,
        slope,
        (float(np.min(rows.low - moved)), float(np.max(rows.high - moved))),
        (float(means.min()), float(means.max())),
    )


LEVELS = 2  # below the scores


@dataclass(frozen=True)
class ShiftCost:
    """What one group of heads costs; products: ciphertext by ciphertext, most of them added up before
    relinearisation."""

    rotations: int
    relinearisations: int
    products: int


def shift_cost(babies: int, giants: int, masked: bool) -> ShiftCost:
    """What `statistical_shift` spends. ARION's Algorithm 3 as printed: 4 giants rotations, babies * giants
    relinearisations."""
    tokens = babies * giants
    if masked:
        return ShiftCost(3 * (giants - 1), tokens + 2 * giants + 1, 3 * tokens + 1)
    return ShiftCost(3 * (giants - 1), giants + 1, tokens + 1)


def statistical_shift(
    be: Backend,
    scores: Sequence[Sequence[Ct]],
    step: int,
    scale: float,
    spec: ShiftSpec,
    masks: Sequence[Ct] = (),
) -> list[Ct]:
    """Scores P[giant][baby] * scale -> shift * scale for each giant, to be subtracted from its diagonals.

    step: slots from one token to the next. masks: per baby, weights of the keys t + baby, one level above the
    scores at least, or none. LEVELS below the scores. Cost: `shift_cost`.
    """
    # shift * scale = mean + offset scale + f (second moment - mean^2), of scaled scores; the root r = sqrt(f)
    # mean gives both terms in the mean without a level more
    f = spec.slope / scale
    root, moment = _masked_moments(be, scores, step, masks, f) if masks else _uniform(be, scores, step, f)
    total = be.add(be.sub(moment, be.square(root)), be.mul_const(root, 1.0 / sqrt(f)))
    shift = be.add_const(total, spec.offset * scale)
    return be.rotate_many(shift, [-giant * len(scores[0]) * step for giant in range(len(scores))])


def _masked_moments(
    be: Backend, scores: Sequence[Sequence[Ct]], step: int, masks: Sequence[Ct], f: float
) -> tuple[Ct, Ct]:
    """(sqrt(f) mean, f second moment) by weights, at the slots of the queries. 1 and 2 levels below the
    scores."""
    giants = range(len(scores))
    square = [[be.square(ct) for ct in row] for row in scores]
    found = []
    for values, factor in ((scores, sqrt(f)), (square, f)):
        left = [[values[g][b] for g in giants] for b in range(len(masks))]
        sums = be.relinearise(be.products(left, [[be.mul_const(mask, factor)] for mask in masks]))
        found.append(_fold(be, [row[0] for row in sums], len(masks) * step))
    return found[0], found[1]


def _uniform(be: Backend, scores: Sequence[Sequence[Ct]], step: int, f: float) -> tuple[Ct, Ct]:
    """The same with weight 1 / tokens for every key."""
    stride, tokens = len(scores[0]) * step, len(scores) * len(scores[0])
    mean = _fold(be, [_total(be, row) for row in scores], stride)
    moment = _fold(be, [be.dot(row, row) for row in scores], stride)
    return be.mul_const(mean, sqrt(f) / tokens), be.mul_const(moment, f / tokens)


def _total(be: Backend, row: Sequence[Ct]) -> Ct:
    return reduce(be.add, row)


def _fold(be: Backend, sums: Sequence[Ct], stride: int) -> Ct:
    """sum_g rot_(g stride)(sums[g]) by Horner's rule: one rotation key."""
    return reduce(lambda acc, part: be.add(be.rotate(acc, stride), part), reversed(sums[:-1]), sums[-1])
