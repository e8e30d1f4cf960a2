"""Linear layers on interleaved columns, and what the numbers in a column mean.

Columns cross layers without their LayerNorm's gamma and beta: those are folded into whatever reads them next,
so that normalising takes one product. `Meaning` carries them along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.packings.columns.layout import Array, Columns, shifted, weights
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Meaning:
    """value of feature f = scale[f] * stored + offset[f]; stored lies in [-1, 1]. Arrays of length
    (features,)."""

    scale: Array
    offset: Array

    @staticmethod
    def bounded(bound: float, size: int) -> Meaning:
        """stored = value / bound."""
        return Meaning(np.full(size, bound), np.zeros(size))

    @staticmethod
    def normalised(gamma: Array, beta: Array) -> Meaning:
        """stored = what LayerNorm divides by sqrt(features), which bounds it whatever the input."""
        return Meaning(gamma * np.sqrt(len(gamma)), beta)

    @property
    def even(self) -> bool:
        """Whether every feature is stored in the same way, with nothing added."""
        return bool((self.scale == self.scale[0]).all() and not self.offset.any())

    def fold(self, weight: Array, bias: Array) -> tuple[Array, Array]:
        """weight @ value + bias as an affine map of stored numbers."""
        return weight * self.scale, weight @ self.offset + bias


def centring(size: int) -> Array:
    """(size, size): x -> x minus its mean, which is all that a LayerNorm sees of x."""
    return np.eye(size) - 1.0 / size


@dataclass(frozen=True, eq=False)
class Sum:
    """How residual + block is stored: value / exit, without its mean over features if centred.

    residual: meaning of the residual's stored numbers.
    """

    exit: float
    residual: Meaning
    centred: bool = True

    def matrix(self, size: int) -> Array:
        """(size, size): what happens to every term."""
        return centring(size) if self.centred else np.eye(size)

    def of(self, weight: Array, bias: Array, factor: float = 1.0) -> tuple[Array, Array, Array]:
        """A block's last map -> matrix on what it reads, stored as value / factor; offset of the whole sum;
        matrix on the residual."""
        matrix, added = self.matrix(len(bias)), self.residual
        offset = matrix @ (bias + added.offset) / self.exit
        return matrix @ weight * (factor / self.exit), offset, matrix * added.scale / self.exit


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """out = sum over sources of matrix @ source + bias, one matrix product over all columns. One level.

    weights: (dst.count, lane shifts * columns of a source, lanes), source after source.
    """

    lanes: int
    weights: Array
    bias: Array

    @staticmethod
    def build(parts: Sequence[tuple[Array, Columns]], bias: Array, dst: Columns) -> ColumnMap:
        """parts: (matrix (dst.size, src.size), src) of each source."""
        tables = [weights(matrix, src, dst) for matrix, src in parts]
        return ColumnMap(dst.shape.lanes, np.concatenate(tables, axis=1), dst.lanes_of(bias))

    def apply(self, be: Backend, *sources: Sequence[Ct]) -> Cts:
        """sources: columns as given to `build`, in order; `shifted` ones are made here."""
        return self.outputs(be, [ct for xs in sources for ct in shifted(be, xs, self.lanes)])

    def outputs(self, be: Backend, inputs: Sequence[Ct], first: int = 0, last: int | None = None) -> Cts:
        """Columns first..last of the result from inputs that are shifted already."""
        return tuple(be.matmul(inputs, self.weights[first:last], self.bias[first:last]))
