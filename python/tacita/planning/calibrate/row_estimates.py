"""Fits row estimates (`approx.softmax`) on calibration samples, for attentions whose row
means spread widely.

A packing takes the linear part alone or the quadratic one too (`layouts.registry.Estimates`). v lies along
the direction in which keys and queries together vary most; b, c and the length of v are of least squares,
reweighted towards the rows that are furthest off, so that the range of what is left is small and not its
variance. On rows unlike all samples the quadratic part is too large rather than too small: their means
fall below the interval of 1/x, which then gives less than 1/x.

Rows that an estimate was fitted to lie closer to it than others. So every fifth of the samples is looked at
after an estimate of the other four, too, and intervals reach as far as it lies.

The plan publishes the estimates. Softmax is the same for any numbers, so they are rounded to 8 bits of
mantissa (`planning.calibrate.calibration`) and the constant is taken after that: intervals are measured with
the numbers as the plan has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacita.approx.softmax import RowEstimate
from tacita.blocks.base import Attention, Softmax
from tacita.blocks.shapes import options
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.layouts.registry import LINEAR, NONE, Estimates
from tacita.models.registry import attentions
from tacita.planning.calibrate.calibration import nearest
from tacita.planning.calibrate.excesses import FIFTHS
from tacita.planning.calibrate.intervals import (
    TEMPERATURES,
    Estimate,
    Interval,
    Ranges,
    log_mixed,
    scaled_log_means,
)
from tacita.planning.calibrate.temper import LogMean

Array = NDArray[np.float64]
Rows = Mapping[str, RowEstimate]  # by attention, for those that have one

WORTH = 6.0  # nats between an attention's largest and smallest row mean, above which it gets an estimate
GAIN = 2.0  # nats that it must take off at least
PER_FEATURE = 8  # rows per feature of a head: with fewer the fit would follow the samples and not the model
RIDGE = 1e-4  # of the mean square of an unknown's factor: directions that the samples hardly show stay out
ROUNDS = 40  # of reweighting, of estimates with a quadratic part
ROUNDS_LINEAR = 4  # after 40 the means of texts that fitted nothing rose by a nat more above those that did
PER_ROUND = 16  # rows per feature of a head for each of these
FLOOR = 0.05  # weight of the rows that fit best, of the mean
ENDS = "log_sum_exp", "log_mixed", "log_mixed_mean"  # of a row, after its least and largest score
PLENTY = 32  # rows per feature of a head from which one fifth tells as much as all, in a fifth of the time


class RowSamples:
    """Collects queries and log means of `checkpoint.reference`; pass `see` as its record, after `start`.

    by_attention: the rows that each computes. Memory: hidden + 35 heads floats of 4 bytes a row and
    attention.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._model, self._mask = checkpoint, np.ones(0)
        self._factors: dict[str, Array] = {}  # of the present attention's scores: (tokens, heads, head size)
        self._ends: list[Array] = []  # of the present attention: (heads, rows) each
        self.by_attention = {
            n: AttentionRows(a) for n, a in attentions(checkpoint.config).items() if predictable(a)
        }

    def start(self, mask: Array) -> None:
        """Begins a sample with this mask (tokens,)."""
        self._mask = mask

    def see(self, name: str, value: Array) -> None:
        """Takes queries, keys and scores of attentions and what follows from them; ignores the rest."""
        node, _, key = name.rpartition(".")
        if (rows := self.by_attention.get(node)) is None:
            return
        real = self._mask > 0.0
        if key in ("queries", "keys"):
            self._factors[key] = np.swapaxes(value, 0, 1)
        elif key == "scores":
            self._add(rows, real, value)
            self._ends = [value.min(axis=-1), value.max(axis=-1)]
        elif key == "log_sum_exp":
            computed = real[: value.shape[1]]
            rows.logs.append((value[:, computed] - np.log(self._mask.sum())).astype(np.float32))
            self._ends.append(value)
        elif key == "context":
            mixed = log_mixed(value, self._ends[2])
            rows.ends.append(np.stack([*self._ends, mixed, mixed - np.log(self._mask.sum())]))

    def _add(self, target: AttentionRows, real: NDArray[np.bool_], scores: Array) -> None:
        """Adds an attention's rows. scores (heads, rows, tokens): of the first rows alone where no others are
        asked for."""
        rows, queries = real[: scores.shape[1]], self._factors["queries"]
        target.alone = len(rows) < len(real)
        target.add(queries[rows], queries[~rows], self._factors["keys"][real])
        each = scaled_log_means(scores[:, :, real])
        target.scaled_logs += [each[:, :, which] for which in (rows, ~rows)]
        target.order.append(np.argsort(~rows, kind="stable"))

    def take(self, more: Mapping[str, AttentionRows]) -> None:
        """Appends the rows of further samples of the same model; drops attentions that have none there."""
        self.by_attention = {name: own for name, own in self.by_attention.items() if name in more}
        for name, own in self.by_attention.items():
            own.extend(more[name])

    def log_mean(self, rows: Rows) -> LogMean | None:
        """Returns a function that gives what `Ranges.log_mean` does after these estimates, from the stored
        rows, and widened by `AttentionRows.beyond`; None where rows alone do not say the means of some
        attention."""
        nodes = attentions(self._model.config).items()
        if any(isinstance(a.weights, Softmax) and name not in self.by_attention for name, a in nodes):
            return None
        estimates = {name: row.of(self.by_attention[name].all_queries) for name, row in rows.items()}

        def log_mean(node: str, temperature: float, head: int | None = None) -> Interval:
            index, own = TEMPERATURES.index(temperature), self.by_attention[node]
            logs = np.concatenate([one[index] for one in own.scaled_logs], axis=1)
            below, above = own.beyond if node in estimates else (0.0, 0.0)
            logs = logs - temperature * estimates[node] if node in estimates else logs
            chosen = logs if head is None else logs[head]
            return float(chosen.min()) - temperature * below, float(chosen.max()) + temperature * above

        return log_mean

    def fit(self, kind: Estimates) -> Rows:
        """An estimate for each attention that it is worth for; none where a model has no exponentials. Sets
        `beyond` of each."""
        if kind == NONE:
            return {}
        fits = {name: rows.fit(kind) for name, rows in self.by_attention.items()}
        return {name: row for name, row in fits.items() if row is not None}

    def completed(self, ranges: Ranges, rows: Rows) -> Ranges:
        """Returns the ranges of the same samples with what `Watch` leaves to be found by row: those of scores
        and sums, after these estimates."""
        return ranges.extended(
            {
                f"{node}.{key}": each
                for node, own in self.by_attention.items()
                for key, each in own.ranges(rows.get(node)).items()
            }
        )

    def without(self, fold: int) -> RowSamples:
        """Returns the rows of all samples but those of a fold, to fit estimates that have not seen it."""
        others = RowSamples(self._model)
        others.by_attention = {name: own.without(fold) for name, own in self.by_attention.items()}
        return others

    @property
    def beyond(self) -> dict[str, Interval]:
        """How far other samples lie beyond those that fitted each attention, after `fit`."""
        return {name: rows.beyond for name, rows in self.by_attention.items()}


def estimator(checkpoint: Checkpoint, rows: Rows) -> Estimate:
    """(name of an attention, its input x) -> (heads, tokens) that its estimate takes from the scores; None
    without one."""
    nodes = attentions(checkpoint.config)

    def estimate(name: str, x: Array) -> Array | None:
        return rows[name].of(scaled_queries(checkpoint, nodes[name], x)) if name in rows else None

    return estimate


def scaled_queries(checkpoint: Checkpoint, a: Attention, x: Array) -> Array:
    """Returns the queries (tokens, heads, head size), divided by sqrt(head size)."""
    weight, bias = Weights(checkpoint.tensors).unscaled(a.query)
    product = (x @ weight.T + bias) * (a.query.scale / np.sqrt(a.head_size))
    return np.asarray(product.reshape(len(x), a.heads, -1))


def predictable(a: Attention) -> bool:
    """Whether a query and the keys' bias say how large its scores are: not where positions or norms stand
    between them."""
    return isinstance(a.weights, Softmax) and not options(a)


class AttentionRows:
    """Rows of one attention. beyond: after `fit` of a quadratic estimate, nats by which log means of samples
    that fitted nothing lie below and above those that did. alone: they are the first of each sample, of an
    attention that computes no others: too few to fit a query's part to, but of alike queries, for which a
    constant a head is enough. logs: log means (heads, tokens) of each sample; scaled_logs: the same with
    factors of the scores (factors, heads, tokens), for real tokens and then for padding; keys' second moments
    as they come. ends: of each sample, in the order of its rows, what ENDS names (ends, heads, rows); order:
    its rows, real tokens first."""

    def __init__(self, attention: Attention) -> None:
        heads, size = attention.heads, attention.head_size
        self.attention, self.alone, self.beyond = attention, False, (0.0, 0.0)
        self.logs: list[NDArray[np.float32]] = []
        self.scaled_logs: list[Array] = []
        self.ends: list[Array] = []
        self.order: list[NDArray[np.int64]] = []
        self._queries: list[NDArray[np.float32]] = []  # of real tokens and of padding, by turns
        self._type: type = np.float64  # of the floats of a fit
        # of keys, by fold of the samples
        self._sum, self._square = np.zeros((FIFTHS, heads, size)), np.zeros((FIFTHS, heads, size, size))

    def add(self, queries: Array, padding: Array, keys: Array) -> None:
        fold = len(self._queries) // 2 % FIFTHS
        self._queries += [queries.astype(np.float32), padding.astype(np.float32)]
        self._sum[fold] += keys.sum(axis=0)
        self._square[fold] += np.moveaxis(keys, 0, 2) @ keys.swapaxes(0, 1)

    def extend(self, more: AttentionRows) -> None:
        """Appends the rows of further samples."""
        self.alone = self.alone or more.alone
        self.logs += more.logs
        self.scaled_logs += more.scaled_logs
        self.ends, self.order = self.ends + more.ends, self.order + more.order
        first = len(self._queries) // 2 % FIFTHS
        self._queries += more._queries
        self._sum = self._sum + np.roll(more._sum, first, axis=0)
        self._square = self._square + np.roll(more._square, first, axis=0)

    def without(self, fold: int) -> AttentionRows:
        """Returns what `fit` reads of all samples but those of the fold. It takes floats of half the width
        and the time, as no plan has its estimate."""
        others, rows = AttentionRows(self.attention), [i for i in range(len(self.logs)) if i % FIFTHS != fold]
        others.alone, others.logs = self.alone, [self.logs[i] for i in rows]
        others._type = np.float32
        others._queries = [self._queries[2 * i + part] for i in rows for part in (0, 1)]
        weight = np.arange(FIFTHS)[:, None, None] != fold
        others._sum, others._square = self._sum * weight, self._square * weight[..., None]
        return others

    def ranges(self, estimate: RowEstimate | None) -> dict[str, Array]:
        """Returns (samples, 2) by name, as `Watch` records them after this estimate."""
        each = [self._ranges(number, estimate) for number in range(len(self.ends))]
        return {name: np.array([one[name] for one in each]) for name in each[0]}

    def _ranges(self, sample: int, estimate: RowEstimate | None) -> dict[str, Interval]:
        two = slice(2 * sample, 2 * sample + 2)
        ends = self.ends[sample][..., self.order[sample]]
        means = np.concatenate(self.scaled_logs[two], axis=2)
        if estimate is not None:
            taken = estimate.of(np.concatenate(self._queries[two]).astype(np.float64))
            ends, means = ends - taken, means - np.multiply.outer(TEMPERATURES, taken)
        low, high, *others = ends
        bounds = {"scores": (float(low.min()), float(high.max()))}
        bounds |= {name: (float(v.min()), float(v.max())) for name, v in zip(ENDS, others, strict=True)}
        both = zip(TEMPERATURES, means.min(axis=2).tolist(), means.max(axis=2).tolist(), strict=True)
        for factor, lows, highs in both:
            for head, interval in enumerate(zip(lows, highs, strict=True)):
                bounds[f"log_mean.{factor}.{head}"] = interval
        return bounds

    @property
    def queries(self) -> Array:
        """Queries of the real tokens: (tokens of all samples, heads, head size)."""
        return np.concatenate(self._queries[::2]).astype(np.float64)

    @property
    def all_queries(self) -> Array:
        """Queries of real tokens and of padding, in the order of `scaled_logs`."""
        return np.concatenate(self._queries).astype(np.float64)

    def fit(self, kind: Estimates) -> RowEstimate | None:
        queries = self.queries
        logs = np.concatenate(self.logs, axis=1).astype(np.float64)
        rows, heads, size = queries.shape
        few = rows < PER_FEATURE * size
        if np.ptp(logs) < WORTH or (few and not self.alone):
            return None
        spread = [None] * heads if kind == LINEAR else self._spread(rows)
        estimate = _estimate(queries, logs.astype(self._type), spread, constant=few)
        self.beyond = (0.0, 0.0) if few or kind == LINEAR else self._beyond(queries, logs, spread, estimate)
        gain = np.ptp(logs) - np.ptp(logs - estimate.of(queries))
        return estimate if gain > max(GAIN, sum(self.beyond)) else None

    def _beyond(
        self, queries: Array, logs: Array, spread: Sequence[Array | None], estimate: RowEstimate
    ) -> Interval:
        own, fold = logs - estimate.of(queries), np.arange(len(self.logs)) % FIFTHS
        fold = np.repeat(fold, [each.shape[1] for each in self.logs])
        held_out, plenty = own.copy(), len(queries) >= PLENTY * queries.shape[2]
        for test in (fold == k for k in range(1 if plenty else FIFTHS)):
            if test.any() and not test.all():
                others = _estimate(queries[~test], logs[:, ~test].astype(np.float32), spread)
                held_out[:, test] = logs[:, test] - others.of(queries[test])
        return max(0.0, own.min() - held_out.min()), max(0.0, held_out.max() - own.max())

    def _spread(self, rows: int) -> list[Array]:
        """Covariance of each head's keys."""
        mean = self._sum.sum(axis=0) / rows
        return list(self._square.sum(axis=0) / rows - np.einsum("hd,he->hde", mean, mean))


Fit = tuple[tuple[float, ...], tuple[float, ...], float]  # b, v, c of one head


def _estimate(
    queries: Array, logs: Array, spread: Sequence[Array | None], *, constant: bool = False
) -> RowEstimate:
    """Fits the estimate of every head. queries (rows, heads, size), logs (heads, rows). constant: fits the
    middle of each head's log means only."""
    heads, size = queries.shape[1:]
    if constant:
        middles = (nearest(float(0.5 * (each.min() + each.max()))) for each in logs)
        fits = [((0.0,) * size, (0.0,) * size, middle) for middle in middles]
    else:
        fits = [_head(queries[:, h], logs[h], spread[h]) for h in range(heads)]
    return RowEstimate(*(tuple(part) for part in zip(*fits, strict=True)))


def _head(queries: Array, logs: Array, spread: Array | None) -> Fit:
    """b, v, c of one head, c such that what is left lies evenly about zero. spread: covariance of the
    keys; None for v = 0."""
    direction = np.zeros(queries.shape[1]) if spread is None else _direction(queries, spread)
    fit = None if spread is None else _reweighted(_unknowns(queries, (queries @ direction) ** 2), logs)
    if fit is None or fit[-2] < 0.0:  # rare and small: no real v has such a square
        few = max(1, min(ROUNDS_LINEAR, len(queries) // (PER_ROUND * queries.shape[1])))
        rounds = few if spread is None else ROUNDS
        fit = np.insert(_reweighted(_unknowns(queries), logs, rounds), -1, 0.0)
    linear, quadratic = _rounded(fit[:-2]), _rounded(np.sqrt(fit[-2]) * direction)
    residuals = logs - queries @ np.array(linear) - (queries @ np.array(quadratic)) ** 2
    return linear, quadratic, nearest(float(0.5 * (residuals.min() + residuals.max())))


def _unknowns(*columns: Array) -> Array:
    return np.column_stack([*columns, np.ones(len(columns[0]))])


def _direction(queries: Array, spread: Array) -> Array:
    """The principal axis of the keys that adds most to the variances of the rows' scores."""
    sizes, axes = np.linalg.eigh(spread)
    return np.asarray(axes[:, np.argmax(sizes * ((queries @ axes) ** 2).mean(axis=0))])


def _reweighted(unknowns: Array, values: Array, rounds: int = ROUNDS) -> Array:
    """Damped least squares, weights growing with the residuals. An unknown whose factors are all zero is 0.

    A round multiplies each row, its value behind it, by the root of its weight: products of the result with
    itself are half the work of those of two matrices. They are of the type of the values.
    """
    rows = np.column_stack([unknowns, values]).astype(values.dtype)
    weighted, weights = np.empty_like(rows), np.ones(len(rows))
    damping = RIDGE * np.einsum("ij,ij->j", unknowns, unknowns)
    damping[damping == 0.0] = 1.0
    damping[-1] = 0.0
    solution: Array = np.zeros(unknowns.shape[1])
    for _ in range(rounds):
        np.multiply(rows, np.sqrt(weights).astype(rows.dtype)[:, None], out=weighted)
        moments = (weighted.T @ weighted).astype(np.float64)
        left, right = moments[:-1, :-1] + np.diag(damping), moments[:-1, -1]
        solution = np.asarray(np.linalg.solve(left, right), np.float64)
        residuals = np.abs(rows @ np.append(-solution, 1.0).astype(rows.dtype)).astype(np.float64)
        weights *= residuals + 1e-3 * residuals.max()
        weights = weights / weights.mean() + FLOOR
    return solution


def _rounded(values: Sequence[float] | Array) -> tuple[float, ...]:
    return tuple(nearest(float(v)) for v in values)
