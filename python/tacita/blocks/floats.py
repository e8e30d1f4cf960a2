"""The meaning of a model: float64, any number of texts in front. The reference, and the recorder of values.

Values are recorded by node: `NODE.input` of attention, feed-forward, linear and mean; of attention
`.queries` and `.keys` (heads, tokens, features; as they are multiplied), `.scores` (heads, tokens, tokens;
all keys), `.log_sum_exp` (heads, tokens; real keys) and `.context` (tokens, features); of a function, also
that inside a feed-forward, `.argument` and `.result`; of a gated feed-forward `.factor` and `.product`; of a
norm `.sum` (what it normalises), `.centred` (the same where no mean is taken off), `.variance` (tokens,; with
epsilon) and `.result`; of a mean `.result`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tacita.approx.activations import elu, gelu, gelu_tanh, relu, relu_squared, silu, tanh
from tacita.approx.poly import exact_power
from tacita.blocks import sequence, tensors
from tacita.blocks.base import BEHIND, EVERYWHERE, Dense, Norm, Positions, Powers, Reach, Relative, Rotary
from tacita.blocks.sequence import Keeper, Past
from tacita.blocks.weights import Weights
from tacita.errors import PlanError

Array = NDArray[np.float64]
NOTHING = np.finfo(np.float64).tiny  # the sum of a query's exponentials that sees no real key
See = Callable[[str, Array], None]
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    f.name: f.exact for f in (elu, gelu, gelu_tanh, relu, relu_squared, silu, tanh)
}


def record_nothing(name: str, value: Array) -> None:
    """Records nothing."""


class FloatTensors:
    """The operations of `tensors.Operations` in float64. weights: of the model. mask: (..., tokens), 1 for a
    real token and 0 for padding. see: called with the name of every value and the value. past: of a decoder
    that goes on (`blocks.sequence`); its tokens are the first of the mask."""

    def __init__(
        self, weights: Weights, mask: Array, see: See = record_nothing, past: Past[Array] | None = None
    ) -> None:
        self._weights, self._mask, self._see = weights, np.asarray(mask, np.float64), see
        self._keeper = Keeper(past)

    @property
    def past(self) -> Past[Array]:
        """What the next step needs of this walk."""
        return self._keeper.then(self._mask.shape[-1])

    def enter(self, name: str, x: Array | None = None) -> None:
        """Records the input."""
        if x is not None:
            self._see(f"{name}.input", x)

    def linear(
        self, x: Array, maps: tuple[Dense, ...], add: Array | None = None, *, opened: bool = False
    ) -> Array:
        """Multiplies by one map at a time: to stack weights for every text would take longer."""
        parts = [self._dense(x, d) for d in maps]
        result = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        if add is not None:
            result += add
        return result

    def add(self, x: Array, y: Array) -> Array:
        return x + y

    def scaled(self, x: Array, factor: float) -> Array:
        return np.asarray(x * factor)

    def positions(self, x: Array, p: Positions) -> Array:
        return x + self._weights.positions(p, x.shape[-2], self._keeper.first)

    columns, rows = staticmethod(tensors.columns), staticmethod(tensors.rows)
    heads, merge = staticmethod(tensors.heads), staticmethod(tensors.merge)

    def attend(
        self, run: Callable[..., Array], parts: tuple[Array, Array, Array], name: str, reach: Reach
    ) -> Array:
        return run(*parts)

    def scores(self, queries: Array, keys: Array, name: str) -> Array:
        self._see(f"{name}.queries", queries)
        self._see(f"{name}.keys", keys)
        stacked = tensors.regrouped(queries, keys.shape[-3]) @ np.swapaxes(keys, -1, -2)
        result = np.asarray(tensors.regrouped(stacked, queries.shape[-3]))
        self._see(f"{name}.scores", result)
        return result

    def turn(self, x: Array, rotary: Rotary) -> Array:
        cos, sin = sequence.angles(rotary, x.shape[-2:], self._keeper.first)
        left, right = np.split(x, 2, axis=-1)
        return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)

    def with_past(self, name: str, keys: Array, values: Array) -> tuple[Array, Array]:
        if before := self._keeper.before(name):
            keys, values = (
                np.concatenate(pair, axis=-2) for pair in zip(before, (keys, values), strict=True)
            )
        return self._keeper.keep(name, keys, values)

    def biased(self, scores: Array, relative: Relative, name: str) -> Array:
        """Adds the distances' part and records the sum under `NODE.scores` again, as softmax takes these."""
        result = np.asarray(scores + self._weights.relative(relative, scores.shape[-2:]))
        self._see(f"{name}.scores", result)
        return result

    def softmax(self, scores: Array, name: str, reach: Reach = EVERYWHERE) -> Array:
        """Normalised at once. A query that sees no real key, as padding's may, sees all, as in the integers
        of two parties; of reversed rows it has weights of zero, as in slots."""
        visible = sequence.visible(self._mask[..., None, :], scores.shape[-2:], reach)
        nobody = (visible.max(axis=-1, keepdims=True) == 0.0) & (reach != BEHIND)
        masked = scores + np.where((visible > 0.0) | nobody, 0.0, -np.inf)
        log_sum = self._log_sum(masked, name)
        return np.asarray(np.exp(masked - log_sum))

    def powers(self, scores: Array, variant: Powers, name: str) -> Array:
        self._log_sum(scores + np.where(self._mask > 0.0, 0.0, -np.inf)[..., None, None, :], name)
        share = self._mask / self._mask.sum(axis=-1, keepdims=True)
        powers = exact_power(scores, variant.offset, variant.power) * share[..., None, None, :]
        return np.asarray(powers / variant.denominator)

    def mix(self, weights: Array, values: Array, name: str) -> Array:
        stacked = tensors.regrouped(weights, values.shape[-3]) @ values
        context = np.asarray(tensors.regrouped(stacked, weights.shape[-3]))
        self._see(f"{name}.context", tensors.merge(context))
        return context

    def function(self, x: Array, kind: str, name: str) -> Array:
        if kind not in FUNCTIONS:
            raise PlanError(f"node {name}: function {kind!r}", hint=f"supported: {', '.join(FUNCTIONS)}")
        self._see(f"{name}.argument", x)
        result = np.asarray(FUNCTIONS[kind](x))
        self._see(f"{name}.result", result)
        return result

    def times(self, x: Array, y: Array, name: str) -> Array:
        self._see(f"{name}.factor", y)
        product = np.asarray(x * y)
        self._see(f"{name}.product", product)
        return product

    def norm(self, x: Array, norm: Norm, name: str) -> Array:
        gamma, beta = self._weights.norm(norm)
        centred = x - x.mean(axis=-1, keepdims=True) if norm.centred else x
        variance = (centred**2).mean(axis=-1) + norm.epsilon
        deviation = np.sqrt(variance)[..., None] if norm.deviation is None else norm.deviation
        result = np.asarray(centred / deviation * gamma + beta)
        values = {"sum": x, "centred": centred, "variance": variance, "result": result}
        for key, value in values.items():
            self._see(f"{name}.{key}", value)
        return result

    def mean(self, x: Array, name: str, *, opened: bool = False) -> Array:
        result = np.asarray(self._mask[..., None, :] @ x / self._mask.sum(axis=-1)[..., None, None])
        self._see(f"{name}.result", result)
        return result

    def _dense(self, x: Array, d: Dense) -> Array:
        weight, bias = self._weights.unscaled(d)
        result = np.asarray(x @ weight.T)
        result += bias
        if d.scale != 1.0:
            result *= d.scale
        return result

    def _log_sum(self, masked: Array, name: str) -> Array:
        top = masked.max(axis=-1, keepdims=True)
        top = np.where(np.isneginf(top), 0.0, top)
        log_sum: Array = top + np.log(np.maximum(np.exp(masked - top).sum(axis=-1, keepdims=True), NOTHING))
        self._see(f"{name}.log_sum_exp", log_sum[..., 0])
        return log_sum
