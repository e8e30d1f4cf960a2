"""Softmax in two phases, for scores too wide for one exponential (THOR, section 5.1, algorithm 3).

The first phase finds p = softmax(x/2), whose exponentials span half as many nats; then p^2 / sum(p^2) is
softmax(x). Attention divides by the last sum after the product with V, so what is added to one phase is a
row sum, an inverse and a square.

An error of the first inverse is a factor of a whole row, which the second division takes out. So it is fitted
coarsely, to COARSE, a level less than the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacita.approx.exponentials import exp
from tacita.approx.fit import Array, Interval
from tacita.approx.inverses import inverse
from tacita.approx.spec import Spec

__all__ = ["COARSE", "TwoPhases", "exact", "fit", "numpy", "squares"]

COARSE = 0.05  # relative error of the first inverse
ROOM = 1.0 + COARSE  # largest p of an approximate first phase; squares are stored over ROOM^2


@dataclass(frozen=True)
class TwoPhases:
    """half: exp((x - shift) / 2), of x / 2. first: of the row means of those. second: of the row sums of
    `squares`."""

    half: Spec
    first: Spec
    second: Spec


def fit(scores: Interval, means: Interval, error: Interval, *, keys: int, shift: float) -> TwoPhases:
    """Softmax over at most `keys` keys. means: of exp((x - shift) / 2) over the keys of a row, calibrated.

    error: of each probability, summed over a row: what the exponentials may add, and what the second inverse
    (relative). With S = sum(y^2) >= keys * mean(y)^2, an error d of every y moves a row by 2 d sum(y) / S <=
    2 d / mean(y), so d may be error[0] / 2 of the smallest mean. Errors: FitError.
    """
    half = exp.fit((scores[0] / 2, scores[1] / 2), 0.5 * error[0] * means[0], shift=shift / 2)
    least = ((1.0 - COARSE) / ROOM) ** 2 / keys  # all keys alike
    return TwoPhases(half, inverse.fit(means, COARSE), inverse.fit((least, 1.0), error[1]))


def exact(scores: Array, mask: Array) -> Array:
    """Float64 softmax over the last axis; mask 1 keeps a key, 0 excludes it."""
    kept = np.exp(scores - np.max(scores, axis=-1, keepdims=True)) * mask
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True), dtype=np.float64)


def squares(scores: Array, mask: Array, spec: TwoPhases) -> Array:
    """(p / ROOM)^2 over the last axis, in [0, 1]: what stands in place of one phase's exponentials."""
    y = spec.half.numpy(np.asarray(scores, dtype=np.float64) / 2) * mask / mask.sum(axis=-1, keepdims=True)
    p = y * spec.first.numpy(y.sum(axis=-1, keepdims=True))
    return np.asarray((p / ROOM) ** 2, dtype=np.float64)


def numpy(scores: Array, mask: Array, spec: TwoPhases) -> Array:
    """What the approximation really gives, over the last axis."""
    found = squares(scores, mask, spec)
    return np.asarray(found * spec.second.numpy(found.sum(axis=-1, keepdims=True)), dtype=np.float64)
