"""The two-party operations on integers in one process: formats, roundings, polynomials and clipping of the
protocols.

What is left out is the sharing itself, whose local truncations round up or down at random where this rounds
to the nearest. So this is the accuracy oracle: it runs hundreds of texts in the time in which the protocols
run one. Values that a ring could not hold are not wrapped but counted, by stage, in `overflows`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tacita.blocks import sequence, tensors
from tacita.blocks.base import EVERYWHERE, Dense, Norm, Positions, Powers, Reach, Relative, Rotary
from tacita.blocks.sequence import Keeper, Past
from tacita.blocks.weights import Weights
from tacita.two_party.arithmetic import functions
from tacita.two_party.arithmetic.base import (
    KINDS,
    MEAN_RING,
    MEAN_VALUE,
    MEAN_WEIGHT,
    POWER,
    TURN,
    Array,
    Bounds,
    Fixed,
    Formats,
    Integers,
    Unnormalised,
    constant,
    encode,
    matmul,
    range_bits,
    unknown_kind,
    unknown_option,
)
from tacita.two_party.arithmetic.rotary import turned_from


class FixedTensors:
    """The operations (see `blocks.tensors`) on integers. bounds: of the model's nodes. mask: (..., tokens), 1
    for a real token and 0 for padding.

    past: of a decoder that is to go on (`blocks.sequence`); its tokens are the first of the mask.

    overflows: node -> values that left their ring.
    """

    def __init__(
        self,
        formats: Formats,
        bounds: Bounds,
        weights: Weights,
        mask: Array,
        past: Past[Fixed] | None = None,
    ) -> None:
        self._formats, self._bounds, self._weights = formats, bounds, weights
        self._mask = np.asarray(mask, np.float64)
        self._keeper = Keeper(past)
        self._node = ""
        self.overflows: Counter[str] = Counter()

    @property
    def past(self) -> Past[Fixed]:
        """Keys and values of this walk, which the next step needs."""
        return self._keeper.then(self._mask.shape[-1])

    def enter(self, name: str, x: Fixed | None = None) -> None:
        """Sets the name under which overflows are counted from here on."""
        self._node = name

    def input(self, hidden: Array) -> Fixed:
        """Encodes the client's hidden states (..., tokens, hidden)."""
        return Fixed(encode(hidden, self._formats.fraction), self._formats.fraction)

    def words(self, rows: Array) -> Fixed:
        """Encodes rows of a hidden table (..., tokens, hidden)."""
        return Fixed(encode(rows, self._formats.table), self._formats.table)

    def add(self, x: Fixed, y: Fixed) -> Fixed:
        """Adds both at `fraction` bits."""
        f = self._formats
        return self._held(x.at(f.fraction).values + y.at(f.fraction).values, f.fraction, f.ring - f.weight)

    def scaled(self, x: Fixed, factor: float) -> Fixed:
        """Multiplies by a public integer with `weight` fraction bits, as a linear map does."""
        f = self._formats
        values = x.at(f.fraction).values * constant(factor, f.weight)
        return self._held(values, f.fraction + f.weight, f.ring)

    def positions(self, x: Fixed, p: Positions) -> Fixed:
        """Adds the positions' rows, rounded to the fraction of x."""
        rows = self._weights.positions(p, x.values.shape[-2], self._keeper.first)
        return Fixed(x.values + encode(rows, x.fraction), x.fraction)

    def linear(
        self, x: Fixed, maps: tuple[Dense, ...], add: Fixed | None = None, *, opened: bool = False
    ) -> Fixed:
        """Multiplies exactly what is rounded: x to `fraction` bits, weights to `weight` bits; the result has
        both."""
        f = self._formats
        result = matmul(x.at(f.fraction).values, weight_integers(self._weights, maps, f.weight))
        result = result + encode(self._weights.stacked_bias(maps), f.fraction + f.weight)
        if add is not None:
            result = result + add.at(f.fraction).at(f.fraction + f.weight).values
        return self._held(result, f.fraction + f.weight, f.ring)

    def columns(self, x: Fixed, widths: tuple[int, ...]) -> tuple[Fixed, ...]:
        return tuple(Fixed(part, x.fraction) for part in tensors.columns(x.values, widths))

    def rows(self, x: Fixed, count: int) -> Fixed:
        return Fixed(tensors.rows(x.values, count), x.fraction)

    def heads(self, x: Fixed, count: int) -> Fixed:
        return Fixed(tensors.heads(x.values, count), x.fraction)

    def merge(self, x: Fixed) -> Fixed:
        return Fixed(tensors.merge(x.values), x.fraction)

    def scores(self, queries: Fixed, keys: Fixed, name: str) -> Fixed:
        """Multiplies both factors at `product_fraction` bits. What they must fit is known at softmax:
        positions may be added before."""
        f = self._formats
        left, right = queries.at(f.product_fraction).values, keys.at(f.product_fraction).values
        stacked = matmul(tensors.regrouped(left, right.shape[-3]), np.swapaxes(right, -1, -2))
        return Fixed(tensors.regrouped(stacked, left.shape[-3]), 2 * f.product_fraction)

    def turn(self, x: Fixed, rotary: Rotary) -> Fixed:
        """Rotates x at `fraction` bits, by public integers with `TURN` bits."""
        f = self._formats
        cos, sin = turned_from(rotary.base, self._keeper.first, x.values.shape[-2:], TURN)
        left, right = np.split(x.at(f.fraction).values, 2, axis=-1)
        turned = np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)
        return self._held(turned, f.fraction + TURN, f.turn_ring)

    def with_past(self, name: str, keys: Fixed, values: Fixed) -> tuple[Fixed, Fixed]:
        """Appends keys and values to the past, at the fraction bits at which they are multiplied."""
        factors = [x.at(self._formats.product_fraction) for x in (keys, values)]
        if before := self._keeper.before(name):
            joined = [(old.values, new.values) for old, new in zip(before, factors, strict=True)]
            factors = [Fixed(np.concatenate(pair, axis=-2), factors[0].fraction) for pair in joined]
        return self._keeper.keep(name, factors[0], factors[1])

    def biased(self, scores: Fixed, relative: Relative, name: str) -> Fixed:
        """Adds the table at the scores' fraction."""
        added = encode(self._weights.relative(relative, scores.values.shape[-2:]), scores.fraction)
        return Fixed(scores.values + added, scores.fraction)

    def times(self, x: Fixed, y: Fixed, name: str) -> Fixed:
        """Multiplies both factors at `product_fraction` bits."""
        f = self._formats
        product = x.at(f.product_fraction).values * y.at(f.product_fraction).values
        return self._held(product, 2 * f.product_fraction, f.gate_ring(self._bounds.gates[name]))

    def softmax(self, scores: Fixed, name: str, reach: Reach = EVERYWHERE) -> Unnormalised[Fixed]:
        """Moves the scores of padded keys and of those out of reach out of the range of exp first."""
        f, bounds = self._formats, self._bounds.attention[name]
        visible = sequence.visible(self._mask[..., None, :], scores.values.shape[-2:], reach)
        away = np.where(visible == 0.0, constant(bounds.hiding, scores.fraction), 0)
        hidden, bits = Fixed(scores.values - away, scores.fraction), bounds.score_range
        self._bounded(hidden, bits)
        return Unnormalised(*functions.softmax_parts(hidden, f.score_ring(bounds), bits, f.inverse))

    def powers(self, scores: Fixed, variant: Powers, name: str) -> Unnormalised[Fixed]:
        """Raises PlanError: there is no protocol for them."""
        raise unknown_option(name, "powers in place of softmax")

    def mix(self, weights: Unnormalised[Fixed], values: Fixed, name: str) -> Fixed:
        """Multiplies numerators by values, then by the row's inverse."""
        f, bounds = self._formats, self._bounds.attention[name]
        left, right = weights.numerators.values, values.at(f.product_fraction).values
        stacked = matmul(tensors.regrouped(left, right.shape[-3]), right)
        mixed = tensors.regrouped(stacked, left.shape[-3])
        held = self._held(mixed, POWER + f.product_fraction, f.mix_ring(bounds, self._mask.shape[-1]))
        low = held.at(f.mixed_fraction(bounds.context))
        product = low.values * weights.inverse.values
        return self._held(product, low.fraction + weights.inverse.fraction, f.normal_ring)

    def function(self, x: Fixed, kind: str, name: str) -> Fixed:
        """Applies a function of `functions` by its kind. Raises PlanError for one that has no protocol."""
        if kind not in KINDS:
            raise unknown_kind(kind)
        f, bits = self._formats, range_bits(*self._bounds.functions[name])
        low = x.at(f.fraction)
        self._bounded(low, bits)
        match kind:
            case "relu":
                return functions.relu(low)
            case "relu2":
                squared = functions.relu_squared(low, f.product_fraction)
                ring = f.square_ring(self._bounds.functions[name])
                return self._held(squared.values, squared.fraction, ring)
            case "tanh":
                return functions.tanh(low, f.ring - f.weight, bits)
            case _:
                return functions.bumped(low, f.ring - f.weight, bits, functions.BUMPS[kind][f.gelu])

    def norm(self, x: Fixed, norm: Norm, name: str) -> Fixed:
        """Applies `functions.layer_norm`. Raises PlanError for a stored deviation."""
        if norm.deviation is not None:
            raise unknown_option(name, "a stored deviation")
        affine, bounds = self._weights.norm(norm), self._bounds.norms[name]
        return functions.layer_norm(x, affine, norm, bounds, self._formats.fraction)

    def mean(self, x: Fixed, name: str, *, opened: bool = False) -> Fixed:
        """Multiplies the client's weights 1/n of the real rows by the shared rows."""
        share = encode(self._mask / self._mask.sum(axis=-1, keepdims=True), MEAN_WEIGHT)
        mean = matmul(share[..., None, :], x.at(MEAN_VALUE).values)
        return self._held(mean, MEAN_WEIGHT + MEAN_VALUE, MEAN_RING)

    def _held(self, values: Integers, fraction: int, ring: int) -> Fixed:
        """Counts what a ring of so many bits, less one for its bound, could not hold."""
        self._count(np.abs(values) >= 1 << (ring - 2))
        return Fixed(values, fraction)

    def _bounded(self, x: Fixed, bits: int) -> None:
        """Counts what leaves the range that a function was given."""
        self._count(np.abs(x.values) >= 1 << (x.fraction + bits))

    def _count(self, outside: np.ndarray) -> None:
        if count := int(np.count_nonzero(outside)):
            self.overflows[self._node] += count


def weight_integers(weights: Weights, maps: tuple[Dense, ...], fraction: int) -> Integers:
    """Returns W^T (inputs, outputs) of several maps side by side, row by row in memory. Converted at the
    first call, then kept: for BERT-base that is seconds a text, and as much memory as the weights take."""

    def make() -> Integers:
        return np.ascontiguousarray(encode(weights.stacked(maps)[0].T, fraction))

    matrix: Integers = weights.cache((maps, fraction), make)
    return matrix
