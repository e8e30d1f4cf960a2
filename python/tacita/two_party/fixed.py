"""The two-party operations on integers in one process: formats, roundings, polynomials and clipping of the protocols.

What is left out is the sharing itself, whose local truncations round up or down at random where this rounds to the nearest. So this
is the accuracy oracle: it runs hundreds of texts in the time in which the protocols run one. Values that a ring could not hold are
not wrapped but counted, by stage, in `overflows`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tacita.two_party import functions, shapes
from tacita.two_party.base import (
    MEAN_RING,
    MEAN_VALUE,
    MEAN_WEIGHT,
    POWER,
    Array,
    AttentionBounds,
    Dense,
    Formats,
    Interval,
    Norm,
    Weights,
    hiding,
    mix_ring,
    mixed_fraction,
    range_bits,
    score_range,
    score_ring,
    unknown_kind,
)
from tacita.two_party.integers import Fixed, Integers, constant, encode, matmul, weight_integers


class FixedTensors:
    """mask: (..., tokens), 1 for a real token and 0 for padding. overflows: stage -> values that left their ring."""

    def __init__(self, formats: Formats, mask: Array) -> None:
        self._formats = formats
        self._mask = np.asarray(mask, np.float64)
        self._stage = ""
        self.overflows: Counter[str] = Counter()

    def stage(self, name: str) -> None:
        """Overflows are counted under this name from here on."""
        self._stage = name

    def input(self, hidden: Array) -> Fixed:
        """The client's hidden states (..., tokens, hidden)."""
        return Fixed(encode(hidden, self._formats.fraction), self._formats.fraction)

    def words(self, rows: Array) -> Fixed:
        """Rows of a hidden table (..., tokens, hidden)."""
        return Fixed(encode(rows, self._formats.table), self._formats.table)

    def plus(self, x: Fixed, rows: Array | None) -> Fixed:
        """Rounded to the fraction of x."""
        assert rows is not None
        return Fixed(x.values + encode(rows, x.fraction), x.fraction)

    def linear(self, x: Fixed, dense: Dense, add: Fixed | None = None, *, opened: bool = False) -> Fixed:
        """Exact on what is rounded: x to `fraction` bits, weights to `weight` bits; the result has both."""
        assert dense.weight is not None and dense.bias is not None
        f = self._formats
        result = matmul(x.at(f.fraction).values, weight_integers(dense, f.weight))
        result = result + encode(dense.bias, f.fraction + f.weight)
        if add is not None:
            result = result + add.at(f.fraction).at(f.fraction + f.weight).values
        return self._held(result, f.fraction + f.weight, f.ring)

    def columns(self, x: Fixed, parts: int) -> tuple[Fixed, ...]:
        """See the contract."""
        return tuple(Fixed(part, x.fraction) for part in shapes.columns(x.values, parts))

    def rows(self, x: Fixed, count: int) -> Fixed:
        """See the contract."""
        return Fixed(shapes.rows(x.values, count), x.fraction)

    def heads(self, x: Fixed, count: int) -> Fixed:
        """See the contract."""
        return Fixed(shapes.heads(x.values, count), x.fraction)

    def merge(self, x: Fixed) -> Fixed:
        """See the contract."""
        return Fixed(shapes.merge(x.values), x.fraction)

    def scores(self, queries: Fixed, keys: Fixed, bounds: AttentionBounds) -> Fixed:
        """Both factors at `product_fraction` bits."""
        f = self._formats
        left, right = queries.at(f.product_fraction).values, keys.at(f.product_fraction).values
        return self._held(matmul(left, np.swapaxes(right, -1, -2)), 2 * f.product_fraction, score_ring(f, bounds))

    def softmax(self, scores: Fixed, bounds: AttentionBounds) -> Weights[Fixed]:
        """Padded keys are moved out of the range of exp first."""
        f, away = self._formats, hiding(bounds.scores)
        padded = (self._mask == 0.0)[..., None, None, :]
        hidden = Fixed(scores.values - np.where(padded, constant(away, scores.fraction), 0), scores.fraction)
        bits = score_range(bounds)
        self._bounded(hidden, bits)
        return Weights(*functions.softmax_parts(hidden, score_ring(f, bounds), bits, f.inverse))

    def mix(self, weights: Weights[Fixed], values: Fixed, bounds: AttentionBounds) -> Fixed:
        """Numerators times values, then the row's inverse."""
        f = self._formats
        mixed = matmul(weights.numerators.values, values.at(f.product_fraction).values)
        held = self._held(mixed, POWER + f.product_fraction, mix_ring(f, bounds, self._mask.shape[-1]))
        low = held.at(mixed_fraction(f, bounds.context))
        product = low.values * weights.inverse.values
        return self._held(product, low.fraction + weights.inverse.fraction, f.normal_ring)

    def activation(self, x: Fixed, kind: str, interval: Interval) -> Fixed:
        """See `functions`."""
        f, bits = self._formats, range_bits(*interval)
        low = x.at(f.fraction)
        self._bounded(low, bits)
        match kind:
            case "relu":
                return functions.relu(low)
            case "gelu":
                return functions.gelu(low, f.ring - f.weight, bits, f.gelu)
            case _:
                raise unknown_kind(kind)

    def norm(self, x: Fixed, norm: Norm) -> Fixed:
        """See `functions.layer_norm`."""
        return functions.layer_norm(x, norm, self._formats.fraction)

    def tanh(self, x: Fixed, interval: Interval) -> Fixed:
        """See `functions.tanh`."""
        f, bits = self._formats, range_bits(*interval)
        low = x.at(f.fraction)
        self._bounded(low, bits)
        return functions.tanh(low, f.ring - f.weight, bits)

    def mean(self, x: Fixed, *, opened: bool = False) -> Fixed:
        """The client's weights 1/n of the real rows times the shared rows."""
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
            self.overflows[self._stage] += count
