"""Softmax in rounds, for scores too wide for one exponential (THOR, section 5.1, algorithm 3), and what is
taken from scores before any.

With k rounds it starts from exp(x / 2^k), which spans 2^k times fewer nats. A round divides by the row's sum
and squares: of p = softmax(x / 2^i) it makes p^2, which the next sum divides into softmax(x / 2^(i-1)).
Attention divides by the last sum after the product with V, so what a round adds is a row sum, an inverse and
a square.

An error of a round's inverse is a factor of a whole row, which the next division takes out. So it is fitted
coarsely, to COARSE, a level less than the last.

Noise is such a factor too, and the next division takes out what it was fitted to and no more: beyond that
its polynomial grows without bound, and one padded row spoils the ciphertext. A row whose exponentials are all
small has a mean that noise moves by a good part of itself; a row whose are large has an inverse that is small
beside the largest, which the noise of a bootstrap moves. So each inverse is fitted to all sums that
DEVIATIONS of that leave. Rows far below the others would make the second span too much: below a floor the
first inverse does not follow their means, and saturates.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tacita.approx import exp, inverse
from tacita.approx.fit import Array, FitError, Interval
from tacita.approx.spec import Spec

COARSE = 0.05  # relative error of an inverse that another division follows
DEVIATIONS = 6.0  # of noise that a row may be off by: of a normal one, one in 10^9 is more
FEWEST_KEYS = 8  # over which a row's mean is taken to average noise, at least
FLOORS = 16  # doublings of the least mean that are tried as floors
MOST_ROUNDS = 3  # squarings between softmax of the least share of the scores and that of all
SEEN = 4001  # means at which an inverse is looked at


@dataclass(frozen=True)
class Round:
    """A division and a square. inverse: of the row means of exponentials, or of the row sums of the squares
    of the round before. room: largest p that an approximate inverse gives; squares are stored over room^2.
    steepest: largest value of `inverse`, over which it is stored; a whole multiple of room after another
    round."""

    inverse: Spec
    room: float
    steepest: float


@dataclass(frozen=True)
class Phases:
    """A softmax in rounds. power: exp((x - shift) / 2^k), of x / 2^k, for k rounds. last: the inverse of the
    row sums of the last round's squares."""

    power: Spec
    rounds: tuple[Round, ...]
    last: Spec

    @property
    def depth(self) -> int:
        """Levels of its approximations, one after the other."""
        return sum(spec.depth() for spec in (self.power, *(one.inverse for one in self.rounds), self.last))


def fit(
    scores: Interval,
    means: Interval,
    error: Interval,
    *,
    keys: int,
    shift: float,
    noise: float = 0.0,
    rounds: int = 1,
) -> Phases:
    """Fits a softmax over at most `keys` keys. means: of exp((x - shift) / 2^rounds) over the keys of a row,
    calibrated.

    error: of each probability, summed over a row: what the exponentials may add, and what the last inverse
    (relative). With N = 2^rounds and S = sum(y^N) >= mean(y) sum(y^(N-1)), an error d of every y moves a row
    by N d sum(y^(N-1)) / S <= N d / mean(y), so d may be error[0] / N of the smallest mean. noise: standard
    deviation of a refreshed slot. Of the floors it allows, the one of the fewest levels. Errors: FitError.
    """
    share, off, fits, low = 0.5**rounds, DEVIATIONS * noise, list[Phases](), max(means[0], noise / exp.QUIET)
    scores = scores[0] * share, scores[1] * share
    power = exp.fit(scores, share * error[0] * means[0], shift=shift * share, least=low)
    for floor in (math.ldexp(means[0], doublings) for doublings in range(FLOORS)):
        if floor == means[0] or 2.0 * floor <= means[1]:
            with suppress(FitError):
                fits.append(Phases(power, *_rounds(floor, means, error[1], keys, off, rounds)))
    if not fits:
        message = f"softmax in {rounds} rounds: the least row mean is {means[0]:.1e}, noise {off:.1e} of 1"
        raise FitError(message, hint="more rounds, or temper the attention")
    return min(fits, key=lambda one: one.depth)


def _rounds(
    floor: float, means: Interval, error: float, keys: int, most: float, count: int
) -> tuple[tuple[Round, ...], Spec]:
    """Fits so many rounds and the last inverse. floor: of the means that the first inverse follows. most: of
    noise. Raises FitError."""
    rounds, fitted, sums, off = list[Round](), (floor, means[1]), means, most / math.sqrt(FEWEST_KEYS)
    for number in range(count):
        spec = inverse.fit(fitted, COARSE)
        least, room, steepest = _reach(spec, sums, off, most)
        if not 0.0 < least <= room < math.inf:
            raise FitError("softmax: noise is all of a row")
        if number:  # then an integer scales the product, at no level
            room = steepest / int(steepest / room)
        rounds.append(Round(spec, room, steepest))
        fitted = sums = ((least / room) ** 2 / keys, 1.0)
        off = most * math.sqrt(keys)
    return tuple(rounds), inverse.fit(sums, error)


def _reach(spec: Spec, sums: Interval, off: float, most: float) -> tuple[float, float, float]:
    """Returns (least p of a row, whose exact one is 1; largest; largest value of the inverse), with all
    noise."""
    x = np.geomspace(*sums, SEEN)
    high, low = spec.numpy(x - off), spec.numpy(x + off)
    steepest = float(np.max(np.abs(high))) * (1.0 + spec.error)
    least, room = float(np.min(x * (low - most * steepest))), float(np.max(x * (high + most * steepest)))
    return min(least, 1.0 - spec.error), max(room, 1.0 + spec.error), steepest


def squares(scores: Array, mask: Array, spec: Phases, keys: Array | float) -> Array:
    """Computes (p / room)^2 of the last round over the last axis, in [0, 1]: what stands in place of one
    division's exponentials. mask: 1 at keys that a row sees. keys: all real ones, which its mean is over."""
    share = 0.5 ** len(spec.rounds)
    y = spec.power.numpy(np.asarray(scores, dtype=np.float64) * share) * mask
    y = y / keys
    for one in spec.rounds:
        y = (y * one.inverse.numpy(y.sum(axis=-1, keepdims=True)) / one.room) ** 2
    return np.asarray(y, dtype=np.float64)


def numpy(scores: Array, mask: Array, spec: Phases, keys: Array | float) -> Array:
    """What the approximation really gives, over the last axis. mask, keys: as of `squares`."""
    powers = squares(scores, mask, spec, keys)
    return np.asarray(powers * spec.last.numpy(powers.sum(axis=-1, keepdims=True)), dtype=np.float64)


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
