"""Weights by the names of declarations, in the form in which an interpreter takes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Dense, Positions

Array = NDArray[np.float64]


class Weights:
    """tensors: by name. What is made of them once, and not for every text, is kept (`kept`)."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self.tensors = tensors
        self._kept: dict[Hashable, Any] = {}

    def dense(self, d: Dense) -> tuple[Array, Array]:
        """(outputs, inputs) and (outputs,), scaled."""
        weight, bias = self.affine(d.name)
        return (weight, bias) if d.scale == 1.0 else (d.scale * weight, d.scale * bias)

    def stacked(self, maps: tuple[Dense, ...]) -> tuple[Array, Array]:
        """Several maps of one input as one."""
        parts = [self.dense(d) for d in maps]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([w for w, _ in parts]), np.concatenate([b for _, b in parts])

    def stacked_bias(self, maps: tuple[Dense, ...]) -> Array:
        """Their biases alone."""
        parts = [d.scale * self.tensors[f"{d.name}.bias"] for d in maps]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def affine(self, name: str) -> tuple[Array, Array]:
        """`name`.weight and `name`.bias."""
        return self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]

    def positions(self, p: Positions, tokens: int) -> Array:
        """(tokens, size): what is added to the words of a single text."""
        rows = self.tensors[p.table][:tokens]
        return np.asarray(rows + self.tensors[p.types][0] if p.types else rows)

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """make(), called once for a key: for BERT-base converting weights takes seconds a text."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]
