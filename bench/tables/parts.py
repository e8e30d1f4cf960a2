"""Products, softmaxes and norms that papers time alone: operations as `sim` counts them, seconds by a price
table (`python -m bench part-estimates`).

Nothing is encrypted and no time is taken. Seconds are of all threads of the table's machine and, of columns,
of a ciphertext's texts together. Scores are random: of an interval [a, b] a row has its largest between b / 2
and b, and the others are uniform from a to that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.runs.stages import RELINEARISATIONS, ROTATIONS
from tacita.approx import exp, inverse, rsqrt, softmax
from tacita.approx.fit import FitError, Interval
from tacita.errors import LevelError
from tacita.layouts.columns import BatchShape, Columns
from tacita.layouts.multidiagonal import Features, MultiDiagonal
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.runs import MASK
from tacita.packings import executor
from tacita.packings.base import Operation, stages_of
from tacita.packings.columns.attention import BatchAttention, Split
from tacita.packings.columns.cells import CellSums
from tacita.packings.columns.linear import BatchNorm
from tacita.packings.encoding import Encoding, OutputSpec, apply_unit, output_bound
from tacita.packings.multidiagonal.linear import Affine
from tacita.packings.multidiagonal.products import Product, transpose
from tacita.packings.operations import RowSums, softmax_operations
from tacita.packings.specs import AttentionSpecs
from tacita.packings.weights import AttentionPlan, Positional
from tacita.planning.fitting import REFRESHED, Accuracy
from tacita.planning.place.placement import Placement, place
from tacita.planning.place.simulate import StageSimulator
from tacita.plans.plan import ParameterInfo
from tacita.plans.presets import noise_of
from tacita.plans.prices.cost import Counts, Prices
from tacita.slots.base import Backend, Ct
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Stage
from tacita.texts.answer import softmax as exact

BERT = -8.8, 8.5  # those of the first layer of BERT-base, and its variances (`bench.models.shapes`)
VARIANCES = 0.66, 6.6
LEVELS = 16, 12, 8, 4
PROJECTIONS = "matmul", "matmul_input"
PARTS = {  # of attention, and its stages
    "Q K^T": ("sides", "scores"),
    "softmax": ("softmax",),
    "P V": ("values", "context"),
    "Q K^T V": ("sides", "scores", "values", "context"),
}
Cts = tuple[Ct, ...]
Row = dict[str, Any]


def by_level(layout: Features, top: int, prices: Prices, levels: Sequence[int] = LEVELS) -> Iterator[Row]:
    """A product with weights, and of two encrypted tensors of all heads, on diagonals at each level."""
    heads, square, size = layout.shape, layout.shape.with_rows(layout.shape.columns), layout.size
    weight = np.random.default_rng(0).uniform(-1.0, 1.0, (size, size))
    affine, product = Affine(weight, np.zeros(size), layout, layout), Product(square, heads)

    def crossed(be: Backend, keys: Cts, queries: Cts) -> Cts:
        return product.apply(be, transpose(be, keys, heads), queries)

    tokens = layout.shape.columns
    named: dict[str, tuple[Callable[..., Cts], int]] = {
        f"weights {size} x {size} times {size} x {tokens}": (affine.apply, 1),
        f"{layout.heads} of {tokens} x {layout.width} x {tokens}, transposition included": (crossed, 2),
    }
    for name, (run, operands) in named.items():
        be = SimBackend(layout.shape.slots, top)
        out = run(be, *(tuple(be.input() for _ in range(layout.count)) for _ in range(operands)))
        used = top - min(be.level(ct) for ct in out)
        for level in (each for each in levels if each >= used):
            below = {(op, at - top + level, stage): n for (op, at, stage), n in be.counts.items()}
            yield {"part": name, "level": level, "levels_used": used, **priced(below, prices)}


def of_heads(layout: Features, top: int, prices: Prices) -> Iterator[Row]:
    """Q, K and V of a layer on diagonals, as its stages make them, its scores, and a product of two encrypted
    matrices of as many rows as a text has tokens for 1 to 16 heads, of which a ciphertext holds one (THOR,
    Table 3)."""
    rng, size, tokens = np.random.default_rng(0), layout.size, layout.shape.columns
    maps = {"Q and K": 2, "V": 1}
    for name, times in maps.items():
        weight = rng.uniform(-1.0, 1.0, (times * size, size))
        affine = Affine(weight, np.zeros(times * size), layout, layout.stacked(times))
        found = _counted(affine.apply, (layout.shape,), top, prices)
        yield {"part": f"{name} of {size} x {tokens}", **found}
    sides = layout.shape.with_rows(tokens), layout.shape
    yield {"part": f"scores of {size} x {tokens}", **_counted(Product(*sides).apply, sides, top, prices)}
    for heads in (1, 2, 4, 8, 16):
        one = Features.hidden(tokens * tokens, tokens, heads, tokens).shape
        found = _counted(Product(one, one).apply, (one, one), top, prices)
        yield {"part": f"{heads} products of {tokens} x {tokens} in {tokens * tokens} slots", **found}


def _counted(run: Callable[..., Cts], operands: Sequence[MultiDiagonal], top: int, prices: Prices) -> Row:
    be = SimBackend(operands[0].slots, top)
    run(be, *(tuple(be.input() for _ in range(shape.count)) for shape in operands))
    found = priced(be.counts, prices)
    plain = sum(n for (op, _, _), n in be.counts.items() if op in ("mul_plain", "mul_lifted"))
    key_switches = found["rotations"] + found["relinearisations"]
    return {"key_switches": key_switches, "products_with_plaintexts": plain, **found}


def priced(counts: Counts, prices: Prices) -> Row:
    """Key switches, products and seconds of counted operations."""
    total = Counter[str]()
    for (op, _, _), count in counts.items():
        total[op] += count
    rotations = {key: n for key, n in counts.items() if key[0] in (*ROTATIONS, "hoist")}
    return {
        "rotations": sum(total[op] for op in ROTATIONS),
        "relinearisations": sum(total[op] for op in RELINEARISATIONS),
        "products": sum(total[op] for op in ("mul", "tensor", "outer")),
        "seconds_of_rotations": prices.total(rotations),
        "seconds": prices.total(counts),
    }


@dataclass(frozen=True)
class SoftmaxOfRows:
    """A softmax of a ciphertext's rows, placed on a chain of levels. scores: (rows, keys). rotations: its
    steps, and the highest level of each. row: what it costs, and its error on `sim` with noise."""

    scores: NDArray[np.float64]
    specs: AttentionSpecs
    stages: Sequence[Stage]
    placement: Placement
    rotations: Mapping[int, int] = field(default_factory=dict)
    row: Row = field(default_factory=dict)

    def run(
        self, be: Backend, encrypt: Callable[[Any, int], Ct], decrypt: Callable[[Ct], Any]
    ) -> list[float]:
        """Runs it on a backend: log2 of the mean and of the largest distance of a probability from floats."""
        stored = self.scores.T.ravel() * self.specs.score_scale + self.specs.score_offsets(1)[0]
        inputs = {"softmax.scores": stored, MASK: np.full(be.slots, 1.0 / self.scores.shape[1])}
        levels = self.placement.request
        live = {name: (encrypt(slots, levels.get(name, be.max_level)),) for name, slots in inputs.items()}
        out = executor.run(self.placement.stages, self.stages, be, live)["softmax"][0]
        errors = np.abs(decrypt(out).real * output_bound(self.specs.inverse) - exact(self.scores).T.ravel())
        return [math.log2(errors.mean()), math.log2(errors.max())]


def softmax_of_rows(
    ring: ParameterInfo, values: NDArray[np.float64], scores: Interval, prices: Prices, accuracy: Accuracy
) -> SoftmaxOfRows:
    """A softmax of a ciphertext's rows, values (rows, keys), with the cheapest rounds whose largest error on
    `sim` with noise is the accuracy of exp, or else those of the least."""
    tried = list[SoftmaxOfRows]()
    for count in range(softmax.MOST_ROUNDS + 1):
        with suppress(FitError):
            tried.append(in_rounds(ring, values, softmax_specs(values, scores, count, accuracy), prices))
    least = min(one.row["log2_error"][1] for one in tried)
    most = max(least, math.log2(accuracy.exp))
    fine = [one for one in tried if one.row["log2_error"][1] <= most]
    return min(fine, key=lambda one: one.placement.seconds)


def in_rounds(
    ring: ParameterInfo, values: NDArray[np.float64], specs: AttentionSpecs, prices: Prices
) -> SoftmaxOfRows:
    """The same with these specs, whose rounds are given."""
    rows, keys = values.shape
    sums = CellSums(
        partial(rotate_sum, width=keys, step=rows), 1
    )  # rows side by side: cyclic, and everywhere
    stages = stages_of(_softmax(specs, sums), frozenset({MASK}))
    simulator = StageSimulator(partial(SimBackend, ring.slots, ring.max_level), frozenset({MASK}))
    one = SoftmaxOfRows(
        values, specs, stages, place(stages, {"softmax.scores": 1, MASK: 1}, simulator, prices)
    )
    be = SimBackend(ring.slots, ring.max_level, inject=True, noise=noise_of(ring))
    error = one.run(be, be.encrypt, be.decrypt)
    row = {
        "part": f"softmax of {rows} rows of {keys}, largest scores from {values.max(axis=1).min():.1f} on",
        "rounds": len(specs.rounds),
        "bootstraps": one.placement.bootstraps,
        **priced(be.counts, prices),
        "seconds": one.placement.seconds,
        "log2_error": error,
    }
    return replace(one, rotations=be.rotation_levels, row=row)


def _softmax(specs: AttentionSpecs, sums: RowSums) -> list[Operation]:
    softmax, mixed = softmax_operations("softmax", specs, sums)

    def total(be: Backend, exps: Cts, masks: Cts) -> Cts:
        return sums.stored(be, exps, None if specs.rounds else masks, specs.inverse)

    def divide(be: Backend, exps: Cts, totals: Cts, masks: Cts) -> Cts:
        weighed = exps[0] if specs.rounds else be.mul(exps[0], masks[0])
        return (be.mul(weighed, apply_unit(be, totals[0], specs.inverse)),)

    return [
        *softmax,
        Operation.of("softmax.total", (mixed, MASK), "softmax.total", total),
        Operation.of("softmax.divide", (mixed, "softmax.total", MASK), "softmax", divide),
    ]


def sampled(scores: Interval, rows: int, keys: int, least: float = 0.5) -> NDArray[np.float64]:
    """Scores (rows, keys), as the module says. least: share of the interval's end that a row's largest has
    at least."""
    rng, (low, high) = np.random.default_rng(1), scores
    largest = rng.uniform(high * least, high, (rows, 1))
    shares = rng.uniform(size=(rows, keys))
    shares[:, 0] = 1.0
    return np.asarray(low + shares * (largest - low))


def softmax_specs(values: Any, scores: Interval, count: int, accuracy: Accuracy) -> AttentionSpecs:
    """Specs of a softmax over the last axis, of so many rounds, to these errors. Raises FitError."""
    keys, high = values.shape[-1], scores[1]
    means = np.exp((values - high) * 0.5**count).mean(axis=-1)
    span = float(means.min()), float(means.max())
    if not count:
        power = exp.fit((scores[0], high), accuracy.exp * span[0], shift=high)
        return AttentionSpecs(power, inverse.fit(span, accuracy.inverse), 1.0, 1.0)
    wanted = accuracy.exp, accuracy.inverse
    how: dict[str, Any] = {"keys": keys, "shift": high, "noise": REFRESHED, "rounds": count}
    return AttentionSpecs.of_phases(softmax.fit(scores, span, wanted, **how), 1.0)


def attention_in_columns(shape: BatchShape, size: int, prices: Prices) -> Iterator[Row]:
    """Scores, softmax and context of a head in columns, with MOAI's split of diagonals and with ARION's, at
    the lowest levels that they fit; products with weights are left out."""
    for name, split in (("single", Split.single(shape.tokens)), ("double", Split.double(shape.tokens))):
        counts = head_in_columns(shape, size, split)
        for part, stages in PARTS.items():
            counted = {key: n for key, n in counts.items() if key[2] in stages}
            found = priced({key: n for key, n in counted.items() if key[0] not in PROJECTIONS}, prices)
            yield {
                "part": f"{part}, {shape.tokens} tokens of {size} in columns, {name}",
                "texts": shape.sequences,
                **found,
                "seconds_a_text": found["seconds"] / shape.sequences,
            }


def head_in_columns(
    shape: BatchShape, size: int, split: Split, positional: Positional = Positional()
) -> Counts:
    """Counts a head's operations by stage, at the lowest levels that they fit, of an input with its columns
    alone."""
    values, eye = sampled(BERT, 256, shape.tokens), (np.eye(size), np.zeros(size))
    specs = softmax_specs(values, BERT, 0, Accuracy())
    output = OutputSpec(1.0, Encoding(1.0), centred=True)
    plan = AttentionPlan(1, (eye, eye, eye, eye), specs, Encoding(1.0), output, positional)
    columns, double = Columns.by_heads(shape, 1, size), Split.double(shape.tokens)
    attention = BatchAttention(plan, columns, split, double)
    return at_lowest(shape.slots, lambda be: _walk(attention, be)).counts


def at_lowest(slots: int, run: Callable[[SimBackend], object]) -> SimBackend:
    """Runs something on the chain of the fewest levels that it fits."""
    top = 0
    while True:
        be = SimBackend(slots, top := top + 1)
        with suppress(LevelError):
            run(be)
            return be


def _walk(attention: BatchAttention, be: SimBackend) -> None:
    x, mask = [be.input() for _ in range(attention.columns.count)], be.input()
    with be.stage("sides"):
        sides = attention.query_keys(be, x, 0)
    with be.stage("scores"):
        scores = attention.scores(be, sides, 0)
    with be.stage("softmax"):
        exps = attention.exponentials(be, scores)
    with be.stage("values"):
        (values, *_) = attention.values(be, x, exps)
    with be.stage("context"):
        *context, means = attention.mix(be, values, mask, attention.aligned(be, exps))
    with be.stage("softmax"):
        root = apply_unit(be, means, attention.plan.specs.inverse)
        attention.divided(be, tuple(context), [root])


def norm_in_columns(shape: BatchShape, size: int, prices: Prices) -> Row:
    """A LayerNorm of every token, at the lowest levels that it fits."""
    found = priced(norm_counts(shape, size), prices)
    each = {"texts": shape.sequences, **found, "seconds_a_text": found["seconds"] / shape.sequences}
    return {"part": f"LayerNorm, {shape.tokens} tokens of {size} in columns", **each}


def norm_counts(shape: BatchShape, size: int) -> Counts:
    """Counts the operations of such a norm."""
    norm = BatchNorm(rsqrt.fit(VARIANCES, Accuracy().rsqrt), 1e-12, size, 1.0, 1)

    def run(be: SimBackend) -> None:
        x = tuple(be.input() for _ in range(size))
        norm.normalise(be, x, norm.root(be, norm.variance(be, x)))

    return at_lowest(shape.slots, run).counts


def operations(prices: Prices, limbs: int = 12) -> Iterator[Row]:
    """Single operations at so many limbs (ARION, Table XI)."""
    level = limbs - prices.limbs_at_level_0
    for op in ("mul_plain", "rescale", "mul", "rotate"):
        yield {"part": f"{op} at {limbs} limbs", "seconds": prices.seconds(op, level)}
