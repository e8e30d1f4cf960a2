"""Fits row estimates (`packings.columns.cells.row_estimate`) on calibration samples, for attentions whose row
means spread widely.

v lies along the direction in which keys and queries together vary most; b, c and the length of v are of least
squares, reweighted towards the rows that are furthest off, so that the range of what is left is small and not
its variance. On rows unlike all samples the quadratic part is too large rather than too small: their means
fall below the interval of 1/x, which then gives less than 1/x and does no harm. The iDASH 2024 DASHformer's
11.4 nats become 3.

The plan publishes the estimates. Softmax is the same for any numbers, so they are rounded to 8 bits of
mantissa (`calibrate.outwards`) and the constant is taken after that: intervals are measured with the numbers
as the plan has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Attention, Dense, Softmax
from tacita.calibrate.outwards import nearest
from tacita.calibrate.ranges import Estimate
from tacita.checkpoint import Checkpoint
from tacita.models.registry import attentions
from tacita.packings.columns.cells.row_estimate import RowEstimate

Array = NDArray[np.float64]
Rows = Mapping[str, RowEstimate]  # by attention, for those that have one

WORTH = 6.0  # nats between an attention's largest and smallest row mean, above which it gets an estimate
GAIN = 2.0  # nats that it must take off at least
PER_FEATURE = 8  # rows per feature of a head: with fewer the fit would follow the samples and not the model
RIDGE = 1e-4  # of the mean square of an unknown's factor: directions that the samples hardly show stay out
ROUNDS = 40  # of reweighting
FLOOR = 0.05  # weight of the rows that fit best, of the mean


class RowSamples:
    """Collects queries and log means of `models.reference`; pass `see` as its record, after `start`.

    Memory: hidden + heads floats of 4 bytes a token and attention.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._model, self._mask = checkpoint, np.ones(0)
        exponential = attentions(checkpoint.config).items()
        self._found = {name: _Found(a) for name, a in exponential if isinstance(a.weights, Softmax)}

    def start(self, mask: Array) -> None:
        """A new sample with this mask (tokens,)."""
        self._mask = mask

    def see(self, name: str, value: Array) -> None:
        """Takes inputs of attentions and their log sums of exponentials; ignores the rest."""
        node, _, key = name.rpartition(".")
        if (found := self._found.get(node)) is None:
            return
        real, a = self._mask > 0.0, found.attention
        if key == "input":
            x = value[real]
            found.add(scaled_queries(self._model, a, x), project(self._model, a.key, a.heads, x))
        elif key == "log_sum_exp":
            found.logs.append((value[:, real] - np.log(self._mask.sum())).astype(np.float32))

    def fit(self) -> Rows:
        """An estimate for each attention that it is worth for; none where a model has no exponentials."""
        fits = {name: found.fit() for name, found in self._found.items()}
        return {name: row for name, row in fits.items() if row is not None}


def estimator(checkpoint: Checkpoint, rows: Rows) -> Estimate:
    """(name of an attention, its input x) -> (heads, tokens) that its estimate takes from the scores; None
    without one."""
    known = attentions(checkpoint.config)

    def estimate(name: str, x: Array) -> Array | None:
        return rows[name].of(scaled_queries(checkpoint, known[name], x)) if name in rows else None

    return estimate


def scaled_queries(checkpoint: Checkpoint, a: Attention, x: Array) -> Array:
    """(tokens, heads, head size), divided by sqrt(head size)."""
    return np.asarray(project(checkpoint, a.query, a.heads, x) / np.sqrt(a.head_size))


def project(checkpoint: Checkpoint, d: Dense, heads: int, x: Array) -> Array:
    """(tokens, heads, head size) of query or key."""
    found = (x @ checkpoint.tensors[f"{d.name}.weight"].T + checkpoint.tensors[f"{d.name}.bias"]) * d.scale
    return np.asarray(found.reshape(len(x), heads, -1))


class _Found:
    """Rows of one attention. logs: log means (heads, tokens) of each sample; keys' second moments as they
    come."""

    def __init__(self, attention: Attention) -> None:
        heads, size = attention.heads, attention.head_size
        self.attention = attention
        self.logs: list[NDArray[np.float32]] = []
        self._queries: list[NDArray[np.float32]] = []
        self._sum, self._square = np.zeros((heads, size)), np.zeros((heads, size, size))

    def add(self, queries: Array, keys: Array) -> None:
        self._queries.append(queries.astype(np.float32))
        self._sum += keys.sum(axis=0)
        self._square += np.einsum("thd,the->hde", keys, keys)

    def fit(self) -> RowEstimate | None:
        queries = np.concatenate(self._queries).astype(np.float64)
        logs = np.concatenate(self.logs, axis=1).astype(np.float64)
        rows, heads, size = queries.shape
        if np.ptp(logs) < WORTH or rows < PER_FEATURE * size:
            return None
        mean = self._sum / rows
        spread = self._square / rows - np.einsum("hd,he->hde", mean, mean)
        fits = [_head(queries[:, h], logs[h], spread[h]) for h in range(heads)]
        found = RowEstimate(*(tuple(part) for part in zip(*fits, strict=True)))
        return found if np.ptp(logs - found.of(queries)) < np.ptp(logs) - GAIN else None


def _head(queries: Array, logs: Array, spread: Array) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """b, v, c of one head, c such that what is left lies evenly about zero. spread: covariance of the
    keys."""
    direction = _direction(queries, spread)
    square = (queries @ direction) ** 2
    unknowns = np.column_stack([queries, square, np.ones(len(logs))])
    found = _reweighted(unknowns, logs)
    if found[-2] < 0.0:  # rare and small: no real v has such a square
        found = _reweighted(np.delete(unknowns, -2, axis=1), logs)
        found = np.insert(found, -1, 0.0)
    linear, quadratic = _rounded(found[:-2]), _rounded(np.sqrt(found[-2]) * direction)
    left = logs - queries @ np.array(linear) - (queries @ np.array(quadratic)) ** 2
    return linear, quadratic, nearest(float(0.5 * (left.min() + left.max())))


def _direction(queries: Array, spread: Array) -> Array:
    """The principal axis of the keys that adds most to the variances of the rows' scores."""
    sizes, axes = np.linalg.eigh(spread)
    return np.asarray(axes[:, np.argmax(sizes * ((queries @ axes) ** 2).mean(axis=0))])


def _reweighted(unknowns: Array, values: Array) -> Array:
    """Damped least squares, weights growing with the residuals."""
    weights: Array = np.ones(len(values))
    damping = RIDGE * np.diag((unknowns**2).sum(axis=0))
    damping[-1, -1] = 0.0
    found: Array = np.zeros(unknowns.shape[1])
    for _ in range(ROUNDS):
        weighted = unknowns * weights[:, None]
        found = np.asarray(
            np.linalg.lstsq(weighted.T @ unknowns + damping, weighted.T @ values, rcond=None)[0], np.float64
        )
        left = np.abs(values - unknowns @ found)
        weights *= left + 1e-3 * left.max()
        weights = weights / weights.mean() + FLOOR
    return found


def _rounded(values: Sequence[float] | Array) -> tuple[float, ...]:
    return tuple(nearest(float(v)) for v in values)
