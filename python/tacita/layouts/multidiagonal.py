"""THOR's multi-diagonal batched packing (THOR, section 4.1): which slot holds which number.

H matrices A^(z) of m x n are stored by their lower diagonals L_l(A)[t] = A[(l + t) mod m, t], interleaved
over z, c of them to a ciphertext: **slot (q*n + t)*H + z of ciphertext j holds L_{cj+q}(A^(z))[t]**, c =
slots / (n H). Columns are tokens, matrices are heads, rows are the features of a head:

    token t of feature r of head z    is in    diagonal (r - t) mod m, at entry t of z

Where fewer than c diagonals fill a ciphertext, they repeat. So rotations by whole diagonals are cyclic
modulo the number of diagonals, whatever the sizes; rotations by tokens spill into the next diagonal at the
last token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tacita.errors import ShapeError
from tacita.layouts.arrays import Array, IntArray, ceil_power, is_power, refuse

MIN_TOKENS, MAX_TOKENS = 4, 1024


@dataclass(frozen=True)
class MultiDiagonal:
    """The shape of matrices on diagonals: rows m and columns n of each matrix, m <= n; batch: H. All are
    powers of two. Errors: ShapeError."""

    slots: int
    rows: int
    columns: int
    batch: int

    def __post_init__(self) -> None:
        sizes = (self.slots, self.rows, self.columns, self.batch)
        if not all(is_power(size) for size in sizes) or not MIN_TOKENS <= self.columns <= MAX_TOKENS:
            what = f"{self.batch} matrices of {self.rows} x {self.columns}"
            raise refuse(
                "multidiagonal", what, f"use a power of two of tokens, from {MIN_TOKENS} to {MAX_TOKENS}"
            )
        if self.rows > self.columns:
            what = f"heads of {self.rows} features in texts of {self.columns} tokens"
            raise refuse("multidiagonal", what, "use at least as many tokens as a head has features")
        if self.diagonal > self.slots:
            what = f"{self.columns} tokens of {self.batch} heads in {self.slots} slots"
            raise refuse("multidiagonal", what, "use fewer tokens or a larger ring")

    @property
    def diagonal(self) -> int:
        """Slots of one batched diagonal, n H."""
        return self.columns * self.batch

    @property
    def capacity(self) -> int:
        """c: diagonals per ciphertext, repetitions included."""
        return self.slots // self.diagonal

    @property
    def places(self) -> int:
        """Different diagonals in a ciphertext."""
        return min(self.capacity, self.rows)

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return self.rows // self.places

    @property
    def period(self) -> int:
        """Slots after which a ciphertext repeats."""
        return self.places * self.diagonal

    @cached_property
    def coordinates(self) -> tuple[IntArray, IntArray, IntArray]:
        """(q, t, z) of every slot of a period."""
        slot = np.arange(self.period)
        return slot // self.diagonal, slot // self.batch % self.columns, slot % self.batch

    def with_rows(self, rows: int) -> MultiDiagonal:
        """The same for matrices of another height."""
        return replace(self, rows=rows)

    def tiled(self, v: Array) -> Array:
        """A vector of one period in all slots."""
        return np.tile(v, self.slots // v.size)


@dataclass(frozen=True)
class Features:
    """Where the features of a tensor are: feature ((group * heads) + z) * width + row at row `row` of
    matrix z.

    shape: of one group, whose ciphertexts lie together. heads, width: of the places of a group that are used.
    """

    shape: MultiDiagonal
    size: int
    heads: int
    width: int

    @staticmethod
    def hidden(slots: int, tokens: int, heads: int, head_size: int) -> Features:
        """The layout of hidden states, queries, keys and values: matrix z is head z. Errors: ShapeError."""
        shape = MultiDiagonal(slots, ceil_power(head_size), tokens, ceil_power(heads))
        return Features(shape, heads * head_size, heads, head_size)

    def inner(self, size: int) -> Features:
        """The layout of `size` features over all places of as few groups as hold them."""
        return Features(self.shape, size, self.shape.batch, self.shape.rows)

    def stacked(self, times: int) -> Features:
        """The layout of so many tensors one after the other, each in groups of its own."""
        return Features(self.shape, times * self.size, self.heads, self.width)

    @property
    def scores(self) -> MultiDiagonal:
        """The shape of S^T, which has as many rows as columns."""
        return self.shape.with_rows(self.shape.columns)

    @property
    def groups(self) -> int:
        """How many groups there are, of `shape.count` ciphertexts each."""
        return -(-self.size // (self.heads * self.width))

    @property
    def count(self) -> int:
        """Ciphertexts of one tensor."""
        return self.groups * self.shape.count

    @cached_property
    def features(self) -> IntArray:
        """int [groups, rows, matrices]: the feature in each row of a group's matrices, or -1."""
        group, row, z = np.indices((self.groups, self.shape.rows, self.shape.batch))
        feature = (group * self.heads + z) * self.width + row
        inside = (z < self.heads) & (row < self.width) & (feature < self.size)
        return np.where(inside, feature, -1)

    @cached_property
    def index(self) -> IntArray:
        """int [ciphertexts, period]: the feature in each slot, or -1."""
        q, t, z = self.shape.coordinates
        firsts = self.shape.places * np.arange(self.shape.count)[:, None]
        return self.features[:, (firsts + q + t) % self.shape.rows, z].reshape(self.count, -1)

    @cached_property
    def matrices(self) -> tuple[frozenset[int], ...]:
        """The numbers of the matrices that each ciphertext holds features of."""
        _, _, z = self.shape.coordinates
        return tuple(frozenset(z[row >= 0].tolist()) for row in self.index)

    def vectors(self, per_feature: Array) -> list[Array]:
        """One vector of a period per ciphertext: per_feature[f] where feature f is, zero elsewhere."""
        return [np.where(row >= 0, per_feature[row], 0.0) for row in self.index]

    def pack(self, tensor: Array) -> list[Array]:
        """(tokens, size) -> one slot vector per ciphertext."""
        if tensor.shape != (self.shape.columns, self.size):
            message = f"pack: tensor {tensor.shape}, layout {(self.shape.columns, self.size)}"
            raise ShapeError(message, hint="pad the tokens")
        _, t, _ = self.shape.coordinates
        return [self.shape.tiled(np.where(row >= 0, tensor[t, row], 0.0)) for row in self.index]

    def unpack(self, slots: Sequence[Array]) -> Array:
        """Slot vectors -> (tokens, size)."""
        _, t, _ = self.shape.coordinates
        out = np.zeros((self.shape.columns, self.size), dtype=slots[0].dtype)
        for row, values in zip(self.index, slots, strict=True):
            inside = row >= 0
            out[t[inside], row[inside]] = values[: self.shape.period][inside]
        return out


def diagonals(weight: Array, dst: Features, src: Features, moves: Sequence[int]) -> Array:
    """Weights (dst.size, src.size) by group of the output, group of the input, move of heads, and how many
    rows an input's row is below the output's, modulo all rows: (row, matrix) of the output; 0 where there is
    no feature."""
    rows, batch = src.shape.rows, src.shape.batch
    padded, outputs = np.pad(weight, ((0, 1), (0, 1))), dst.features[:, None, None]
    below = np.add.outer(np.arange(rows), np.arange(rows)) % rows
    inputs = np.pad(src.features, ((0, 0), (0, 0), (batch, batch)), constant_values=-1)[:, below]
    table = np.empty((dst.groups, src.groups, len(moves), rows, rows, batch), padded.dtype)
    for number, head in enumerate(moves):
        table[:, :, number] = padded[outputs, inputs[..., batch + head : 2 * batch + head]]
    return table


# Masks of the real tokens, by token and in the layout of the scores.


def keys_of(layout: Features) -> list[IntArray]:
    """The key of each slot of the scores S^T[key, query]: a period for each of their ciphertexts."""
    shape = layout.scores
    q, t, _ = shape.coordinates
    return [(first + q + t) % shape.columns for first in shape.places * np.arange(shape.count)]


def masks_of(layout: Features, keep: Array, *, scores: bool = True) -> list[Array]:
    """Periods of the masks of keep (tokens,): keep[token] in every diagonal and head, and keep[key] over the
    scores, where those are asked for."""
    _, t, _ = layout.shape.coordinates
    return [keep[t], *(keep[key] for key in (keys_of(layout) if scores else []))]
