"""The meaning of the two-party operations: float64, any number of texts in front."""

from __future__ import annotations

import math

import numpy as np

from tacita.two_party import shapes
from tacita.two_party.base import Array, AttentionBounds, Dense, Interval, Norm, unknown_kind

_erf = np.vectorize(math.erf, otypes=[np.float64])


class PlainTensors:
    """mask: (..., tokens), 1 for a real token and 0 for padding."""

    def __init__(self, mask: Array) -> None:
        self._mask = np.asarray(mask, np.float64)

    def stage(self, name: str) -> None:
        """Nothing to tell."""

    def linear(self, x: Array, dense: Dense, add: Array | None = None, *, opened: bool = False) -> Array:
        """See the contract."""
        assert dense.weight is not None and dense.bias is not None
        result: Array = x @ dense.weight.T + dense.bias
        return result if add is None else result + add

    def plus(self, x: Array, rows: Array | None) -> Array:
        """See the contract."""
        assert rows is not None
        return x + rows

    def columns(self, x: Array, parts: int) -> tuple[Array, ...]:
        """See the contract."""
        return shapes.columns(x, parts)

    def rows(self, x: Array, count: int) -> Array:
        """See the contract."""
        return shapes.rows(x, count)

    def heads(self, x: Array, count: int) -> Array:
        """See the contract."""
        return shapes.heads(x, count)

    def merge(self, x: Array) -> Array:
        """See the contract."""
        return shapes.merge(x)

    def scores(self, queries: Array, keys: Array, bounds: AttentionBounds) -> Array:
        """See the contract."""
        return np.asarray(queries @ np.swapaxes(keys, -1, -2))

    def softmax(self, scores: Array, bounds: AttentionBounds) -> Array:
        """Normalised at once."""
        masked = scores + np.where(self._mask > 0.0, 0.0, -np.inf)[..., None, None, :]
        powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))

    def mix(self, weights: Array, values: Array, bounds: AttentionBounds) -> Array:
        """See the contract."""
        return np.asarray(weights @ values)

    def activation(self, x: Array, kind: str, interval: Interval) -> Array:
        """See the contract."""
        match kind:
            case "relu":
                return np.maximum(x, 0.0)
            case "gelu":
                return np.asarray(0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))))
            case _:
                raise unknown_kind(kind)

    def norm(self, x: Array, norm: Norm) -> Array:
        """See the contract."""
        assert norm.gamma is not None and norm.beta is not None
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True) + norm.epsilon
        return np.asarray(centred / np.sqrt(variance) * norm.gamma + norm.beta)

    def tanh(self, x: Array, interval: Interval) -> Array:
        """See the contract."""
        return np.tanh(x)

    def mean(self, x: Array, *, opened: bool = False) -> Array:
        """See the contract."""
        share = self._mask / self._mask.sum(axis=-1, keepdims=True)
        return np.asarray(share[..., None, :] @ x)
