"""Fits row estimates (`blocks.row_estimate`) on calibration samples, for layers whose row means spread widely.

v lies along the direction in which keys and queries together vary most; b, c and the length of v are of least squares,
reweighted towards the rows that are furthest off, so that the range of what is left is small and not its variance. On rows
unlike all samples the quadratic part is too large rather than too small: their means fall below the interval of 1/x, which
then gives less than 1/x and does no harm. The iDASH 2024 DASHformer's 11.4 nats become 3.

The plan publishes the estimates. Softmax is the same for any numbers, so they are rounded to 8 bits of mantissa (`plan.outwards`)
and the constant is taken after that: intervals are measured with the numbers as the plan has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint import Checkpoint
from tacita.models.bert import layer_prefix
from tacita.packings.columns.row_estimate import RowEstimate
from tacita.plan.outwards import nearest

Array = NDArray[np.float64]
ATTENTION = re.compile(r"layer(\d+)\.attention")
Rows = tuple[RowEstimate | None, ...]  # by layer

WORTH = 6.0  # nats between a layer's largest and smallest row mean, above which it gets an estimate
GAIN = 2.0  # nats that it must take off at least
PER_FEATURE = 8  # rows per feature of a head: with fewer the fit would follow the samples and not the model
RIDGE = 1e-4  # of the mean square of an unknown's factor: directions that the samples hardly show stay out
ROUNDS = 40  # of reweighting
FLOOR = 0.05  # weight of the rows that fit best, of the mean


class RowSamples:
    """Collects queries and log means of `models.reference`; pass `see` as its record, after `start`.

    Memory: hidden + heads floats of 4 bytes a token and layer.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._model, self._mask = checkpoint, np.ones(0)
        self._layers = [
            _Layer(checkpoint.config.heads, checkpoint.config.head_size) for _ in range(checkpoint.config.layers)
        ]

    def start(self, mask: Array) -> None:
        """A new sample with this mask (tokens,)."""
        self._mask = mask

    def see(self, name: str, value: Array) -> None:
        """Takes inputs of layers and their log sums of exponentials; ignores the rest."""
        node, _, key = name.rpartition(".")
        if (index := _index(node)) is None:
            return
        real = self._mask > 0.0
        if key == "input":
            queries = scaled_queries(self._model, index, value[real])
            self._layers[index].add(queries, project(self._model, index, "key", value[real]))
        elif key == "log_sum_exp":
            self._layers[index].logs.append((value[:, real] - np.log(self._mask.sum())).astype(np.float32))

    def fit(self) -> Rows:
        """An estimate for each layer, None where it is not worth it or a model has no exponentials."""
        if self._model.config.retrained.bpmax:
            return (None,) * len(self._layers)
        return tuple(layer.fit() for layer in self._layers)


def estimates(checkpoint: Checkpoint, rows: Rows, name: str, x: Array) -> Array | None:
    """(heads, tokens) of the attention called `name` for its input x; None without an estimate."""
    index = _index(name)
    if index is None or (row := rows[index]) is None:
        return None
    return row.of(scaled_queries(checkpoint, index, x))


def _index(node: str) -> int | None:
    """Which layer's attention this node is; None for another."""
    found = ATTENTION.fullmatch(node)
    return int(found[1]) if found else None


def scaled_queries(checkpoint: Checkpoint, layer: int, x: Array) -> Array:
    """(tokens, heads, head size), divided by sqrt(head size)."""
    return np.asarray(project(checkpoint, layer, "query", x) / np.sqrt(checkpoint.config.head_size))


def project(checkpoint: Checkpoint, layer: int, part: str, x: Array) -> Array:
    """(tokens, heads, head size) of query or key."""
    name = f"{layer_prefix(layer)}attention.self.{part}"
    found = x @ checkpoint.tensors[f"{name}.weight"].T + checkpoint.tensors[f"{name}.bias"]
    return np.asarray(found.reshape(len(x), checkpoint.config.heads, checkpoint.config.head_size))


class _Layer:
    """Rows of one layer. logs: log means (heads, tokens) of each sample; keys' second moments as they come."""

    def __init__(self, heads: int, size: int) -> None:
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
    """b, v, c of one head, c such that what is left lies evenly about zero. spread: covariance of the keys."""
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
