"""Softmax in two phases, for scores too wide for one exponential (THOR, section 5.1, algorithm 3), and
what is taken from scores before any.

The first phase finds p = softmax(x/2), whose exponentials span half as many nats; then p^2 / sum(p^2) is
softmax(x). Attention divides by the last sum after the product with V, so what is added to one phase is a
row sum, an inverse and a square.

An error of the first inverse is a factor of a whole row, which the second division takes out. So it is fitted
coarsely, to COARSE, a level less than the second.

Noise is such a factor too, and the second division takes out what it was fitted to and no more: beyond that
its polynomial grows without bound, and one padded row spoils the ciphertext. A row whose exponentials are all
small has a mean that noise moves by a good part of itself; a row whose are large has an inverse that is small
beside the largest, which the noise of a bootstrap moves. So the second inverse is fitted to all sums that
DEVIATIONS of that leave. Rows far below the others would make it span too much: below a floor the first
inverse does not follow their means, and saturates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tacita.approx import exp, inverse
from tacita.approx.fit import Array, FitError, Interval
from tacita.approx.spec import Spec

COARSE = 0.05  # relative error of the first inverse
DEVIATIONS = 6.0  # of noise that a row may be off by: of a normal one, one in 10^9 is more
FEWEST_KEYS = 8  # over which a row's mean is taken to average noise, at least
FLOORS = 16  # doublings of the least mean that are tried as floors
SEEN = 4001  # means at which a first inverse is looked at


@dataclass(frozen=True)
class TwoPhases:
    """A softmax of two phases. half: exp((x - shift) / 2), of x / 2. first: of the row means of those.
    second: of the row sums of `squares`. room: largest p that an approximate first phase gives; squares are
    stored over room^2. steepest: largest value of `first`; it is stored over that."""

    half: Spec
    first: Spec
    second: Spec
    room: float
    steepest: float


def fit(
    scores: Interval, means: Interval, error: Interval, *, keys: int, shift: float, noise: float = 0.0
) -> TwoPhases:
    """Fits a softmax over at most `keys` keys. means: of exp((x - shift) / 2) over the keys of a row,
    calibrated.

    error: of each probability, summed over a row: what the exponentials may add, and what the second inverse
    (relative). With S = sum(y^2) >= keys * mean(y)^2, an error d of every y moves a row by 2 d sum(y) / S <=
    2 d / mean(y), so d may be error[0] / 2 of the smallest mean. noise: standard deviation of a refreshed
    slot, such as an exponential or a stored inverse. Of the floors that it allows, the one of the fewest
    levels. Errors: FitError.
    """
    half = exp.fit((scores[0] / 2, scores[1] / 2), 0.5 * error[0] * means[0], shift=shift / 2)
    pairs = list(_inverses(half, means, error[1], keys, DEVIATIONS * noise))
    if not pairs:
        message = f"softmax in two phases: the least row mean is {means[0]:.1e}, noise {noise:.1e} of 1"
        raise FitError(message, hint="temper the attention, or one phase")
    return min(pairs, key=lambda one: one.first.depth() + one.second.depth())


def _inverses(half: Spec, means: Interval, error: float, keys: int, most: float) -> Iterator[TwoPhases]:
    """Yields a pair of inverses for each floor of the means under which both can be fitted. most: of
    noise."""
    for doublings in range(FLOORS):
        floor = math.ldexp(means[0], doublings)
        if 2.0 * floor > means[1] and doublings:
            return
        try:
            first = inverse.fit((floor, means[1]), COARSE)
            least, room, steepest = _reach(first, means, most)
            if 0.0 < least <= room < math.inf:
                second = inverse.fit(((least / room) ** 2 / keys, 1.0), error)
                yield TwoPhases(half, first, second, room, steepest)
        except FitError:
            continue


def _reach(first: Spec, means: Interval, most: float) -> tuple[float, float, float]:
    """Returns (least p of a row, whose exact one is 1; largest; largest value of the inverse), with all
    noise."""
    off = most / math.sqrt(FEWEST_KEYS)
    x = np.geomspace(*means, SEEN)
    high, low = first.numpy(x - off), first.numpy(x + off)
    steepest = float(np.max(np.abs(high))) * (1.0 + first.error)
    least, room = float(np.min(x * (low - most * steepest))), float(np.max(x * (high + most * steepest)))
    return min(least, 1.0 - first.error), max(room, 1.0 + first.error), steepest


def squares(scores: Array, mask: Array, spec: TwoPhases) -> Array:
    """Computes (p / room)^2 over the last axis, in [0, 1]: what stands in place of one phase's
    exponentials."""
    y = spec.half.numpy(np.asarray(scores, dtype=np.float64) / 2) * mask / mask.sum(axis=-1, keepdims=True)
    p = y * spec.first.numpy(y.sum(axis=-1, keepdims=True))
    return np.asarray((p / spec.room) ** 2, dtype=np.float64)


def numpy(scores: Array, mask: Array, spec: TwoPhases) -> Array:
    """What the approximation really gives, over the last axis."""
    powers = squares(scores, mask, spec)
    return np.asarray(powers * spec.second.numpy(powers.sum(axis=-1, keepdims=True)), dtype=np.float64)


# Row estimate: a number taken from all scores of a row, from the row's query alone, so that all rows' means
# are alike.
#
# Softmax does not change when a row's scores all fall by the same number. The log of a row's mean of
# exponentials is close to a quadratic form of its query (the second cumulant of its scores, which are linear
# in the query), mostly of rank 1:
#
#     log mean_j exp(q_i . k_j)  ~  b . q_i + (v . q_i)^2 + c        (q divided by sqrt(head size))
#
# Taken from the scores before exp, it leaves 1/x a narrow interval at no level of its own. b . q_i comes off
# with the key's bias and costs nothing in any packing. (v . q_i)^2 takes a square: `packings.columns` has it
# ready at the level of the scores for one column a head, the packings of one text leave it out (v = 0). c is
# one number for each head, beside the centre that scores are stored about.

Vectors = tuple[tuple[float, ...], ...]  # (heads, head size)


@dataclass(frozen=True)
class RowEstimate:
    """The coefficients of every head of one layer: linear b, quadratic v, constant c."""

    linear: Vectors
    quadratic: Vectors
    constant: tuple[float, ...]

    @property
    def is_linear(self) -> bool:
        """Whether it has no quadratic part."""
        return not np.any(self.quadratic)

    def of(self, queries: Array) -> Array:
        """Computes the estimates: queries (tokens, heads, head size), divided by sqrt(head size) -> (heads,
        tokens)."""
        b, v = np.array(self.linear), np.array(self.quadratic)
        z = np.einsum("thd,hd->ht", queries, v)
        return np.asarray(np.einsum("thd,hd->ht", queries, b) + z**2 + np.array(self.constant)[:, None])

    def key_bias(self, bias: Array) -> Array:
        """Returns the key's bias (hidden,) less b: it takes b . q_i from the scores."""
        return np.asarray(bias - np.concatenate([np.array(b) for b in self.linear]))

    def roots(self, weight: Array, bias: Array) -> tuple[Array, Array]:
        """Maps a query (hidden, inputs), (hidden,), scaled by any factor, to v . q of every head: (heads,
        inputs), (heads,)."""
        v = np.array(self.quadratic)
        heads, size = v.shape
        return np.einsum("hd,hdi->hi", v, weight.reshape(heads, size, -1)), (
            v * bias.reshape(heads, size)
        ).sum(axis=1)
