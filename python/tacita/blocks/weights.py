"""Weights by the names of declarations, in the form in which an interpreter takes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks import sequence
from tacita.blocks.base import Dense, Norm, Positions, Relative

Array = NDArray[np.float64]


class Weights:
    """Tensors by name, as interpreters take them. What is made of them once, and not for every text, is
    cached (`cache`)."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self.tensors = tensors
        self._kept: dict[Hashable, Any] = {}

    def dense(self, d: Dense) -> tuple[Array, Array]:
        """Returns weight (outputs, inputs) and bias (outputs,), scaled."""
        weight, bias = self.unscaled(d)
        return (weight, bias) if d.scale == 1.0 else (d.scale * weight, d.scale * bias)

    def unscaled(self, d: Dense) -> tuple[Array, Array]:
        """Returns weight and bias without `d.scale`: views of the tensors, where there is no gain."""
        weight, bias, (ins, outs) = self._part(f"{d.name}.weight", d), self.bias(d), d.copies
        weight = weight * self.tensors[d.gain][:, None] if d.gain else weight
        return (weight if d.copies == (1, 1) else np.tile(weight / ins, (outs, ins))), bias

    def bias(self, d: Dense) -> Array:
        """Returns the bias (outputs,), not scaled; zeros where there is none."""
        if not d.bias:
            return np.zeros(d.outputs)
        bias = self._part(f"{d.name}.bias", d)
        bias = np.asarray(bias * self.tensors[d.gain]) if d.gain else bias
        return bias if d.copies[1] == 1 else np.tile(bias, d.copies[1])

    def parts(self, maps: tuple[Dense, ...], rows: int) -> Iterator[Array]:
        """Yields the weights of several maps of one input as one's, scaled, so many rows at a time, which
        alone are converted."""
        for d in maps:
            name, first = f"{d.name}.weight", d.part[0] * d.outputs
            apart = d.copies == (1, 1) and not d.gain
            whole = self.tensors[name] if apart else self.unscaled(d)[0]
            start = first if apart else 0
            for at in range(start, start + d.outputs, rows):
                part = whole[at : min(at + rows, start + d.outputs)]
                yield part if d.scale == 1.0 else d.scale * part

    def stacked_bias(self, maps: tuple[Dense, ...]) -> Array:
        """Returns the biases of several maps as one."""
        parts = [d.scale * self.bias(d) for d in maps]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def norm(self, n: Norm) -> tuple[Array, Array]:
        """Returns gamma and beta, (size,) each, scaled; ones and zeros where there are none."""
        gamma = np.tile(self.tensors[f"{n.name}.weight"], n.copies) if n.gamma else np.ones(n.size)
        beta = np.tile(self.tensors[f"{n.name}.bias"], n.copies) if n.beta else np.zeros(n.size)
        return (gamma, beta) if n.scale == 1.0 else (n.scale * gamma, n.scale * beta)

    def positions(self, p: Positions, tokens: int, past: int = 0) -> Array:
        """Returns (tokens, size): what is added to the words of a single text behind so many tokens."""
        first = p.first + past
        rows = self.tensors[p.table][first : first + tokens]
        return np.asarray(rows + self.tensors[p.types][0] if p.types else rows)

    def relative(self, r: Relative, shape: tuple[int, int]) -> Array:
        """Returns (heads, queries, keys): what is added to scores of this shape."""
        return np.moveaxis(self.tensors[r.table][sequence.buckets(r, shape)], -1, 0)

    def _part(self, name: str, d: Dense) -> Array:
        (k, _), rows = d.part, d.outputs // d.copies[1]
        return np.asarray(self.tensors[name])[k * rows : (k + 1) * rows]

    def cache(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns make(), called once for a key: for BERT-base converting weights takes seconds a text."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]
