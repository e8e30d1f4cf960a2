"""Rows packing: the default for one input. **slot = token * window + position**.

m tokens (a power of two) share the s slots, so each has a window of W = s/m positions. Whatever depends only
on the position is a periodic vector of length W, which the engine encodes as a sparse polynomial. Rotating by
W*t moves tokens cyclically; rotating by k < W moves positions and spills into the neighbouring token at a
window's end.

A tensor of d features takes ceil(d/W) ciphertexts. When the features of a ciphertext fill at most half of its
window, the tensor may be stored with copies (x|x|..): an output position then finds each feature at several
distances, which halves the diagonals of a linear layer, and sums over all features are right at the first
copy after log2 rotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tacita.errors import ShapeError
from tacita.layouts.arrays import Array, IntArray, ceil_power, is_power, refuse
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.diagonals import Diagonals

MIN_TOKENS, MAX_TOKENS = 4, 1024
KEPT = 16  # arrangements of a weight block, of half a megabyte each


@dataclass(frozen=True)
class RowsShape:
    """The sizes of the packing: slots s and tokens m. Errors: ShapeError for a token count that is not
    admitted."""

    slots: int
    tokens: int

    def __post_init__(self) -> None:
        if not (is_power(self.tokens) and MIN_TOKENS <= self.tokens <= MAX_TOKENS):
            hint = f"use a power of two from {MIN_TOKENS} to {MAX_TOKENS}; shorter texts are padded"
            raise refuse("rows", f"{self.tokens} tokens", hint)
        if self.slots % self.tokens or self.window < 4:
            raise refuse(
                "rows", f"{self.tokens} tokens in {self.slots} slots", "use fewer tokens or a larger ring"
            )

    @property
    def window(self) -> int:
        """Positions of one token."""
        return self.slots // self.tokens


@dataclass(frozen=True, eq=False)
class FeatureLayout:
    """Features of every token at fixed positions.

    home: int [n_cts, window], the feature at each position of the first copy, or -1. blocks: positions
    reserved for the first copy of each ciphertext (a power of two). copied: whether the other blocks of the
    window repeat it.
    """

    shape: RowsShape
    size: int
    home: IntArray
    blocks: tuple[int, ...]
    copied: bool

    @staticmethod
    def dense(shape: RowsShape, size: int, *, copied: bool) -> FeatureLayout:
        """Features 0..size-1 in order, as many per ciphertext as its window holds."""
        return FeatureLayout.of(
            shape,
            [np.arange(a, min(a + shape.window, size)) for a in range(0, size, shape.window)],
            copied=copied,
        )

    @staticmethod
    def of(shape: RowsShape, rows: Sequence[IntArray], *, copied: bool) -> FeatureLayout:
        """One sequence of features (-1 for none) per ciphertext, from position 0."""
        home = np.full((len(rows), shape.window), -1, dtype=np.int64)
        for row, features in zip(home, rows, strict=True):
            row[: len(features)] = features
        blocks = tuple(ceil_power(len(features)) for features in rows)
        return FeatureLayout(shape, int(home.max()) + 1, home, blocks, copied)

    @property
    def count(self) -> int:
        """Ciphertexts of one tensor."""
        return len(self.home)

    def copies(self, ct: int) -> int:
        """How often ciphertext `ct` holds its features."""
        return self.shape.window // self.blocks[ct] if self.copied else 1

    @cached_property
    def index(self) -> IntArray:
        """int [n_cts, window]: the feature at each position with all copies, or -1."""
        return np.stack(
            [
                np.tile(row[:b], self.shape.window // b) if self.copied else row
                for row, b in zip(self.home, self.blocks, strict=True)
            ]
        )

    def inner(self, size: int) -> FeatureLayout:
        """The layout of so many features of every token, without copies."""
        return FeatureLayout.dense(self.shape, size, copied=False)

    def with_copies(self, copied: bool) -> FeatureLayout:
        """The same places, with or without copies."""
        return FeatureLayout(self.shape, self.size, self.home, self.blocks, copied)

    def vectors(self, per_feature: Array) -> list[Array]:
        """Returns periodic vectors, one a ciphertext: per_feature[f] where feature f lives, else zero."""
        return [np.where(row >= 0, per_feature[row], 0) for row in self.home]

    def pack(self, tensor: Array) -> list[Array]:
        """(tokens, size) -> one slot vector per ciphertext."""
        if tensor.shape != (self.shape.tokens, self.size):
            raise ShapeError(
                f"pack: tensor {tensor.shape}, layout {(self.shape.tokens, self.size)}", hint="pad the tokens"
            )
        return [np.where(row >= 0, tensor[:, row], 0).reshape(-1) for row in self.index]

    def unpack(self, slots: Sequence[Array]) -> Array:
        """Slot vectors -> (tokens, size), read from the first copy."""
        out = np.zeros((self.shape.tokens, self.size), dtype=slots[0].dtype)
        for row, values in zip(self.home, slots, strict=True):
            out[:, row[row >= 0]] = values.reshape(self.shape.tokens, -1)[:, row >= 0]
        return out


def can_carry(layout: FeatureLayout) -> bool:
    """Whether a window has room for token 0 beside its own features."""
    return layout.count == 1 and 2 * layout.blocks[0] <= layout.shape.window


def carry(layout: FeatureLayout, tensor: Array) -> Array:
    """(tokens, size) -> slot vector with token 0 in every second block."""
    rows = np.zeros((layout.shape.tokens, layout.shape.window), dtype=tensor.dtype)
    rows[:, : layout.size] = tensor
    rows[:, layout.blocks[0] : layout.blocks[0] + layout.size] = tensor[0]
    return rows.reshape(-1)


def carried_index(layout: FeatureLayout) -> IntArray:
    """int [window]: the feature of token 0 at each position of the second block, -1 elsewhere."""
    return np.where(
        np.arange(layout.shape.window) // layout.blocks[0] == 1, np.roll(layout.home[0], layout.blocks[0]), -1
    )


def linear_diagonals(
    weight: Array, src: FeatureLayout, dst: FeatureLayout, first_output: int = 0
) -> Diagonals:
    """Diagonals of y = x @ weight.T from src (any copy) to the first copy of dst; zero at all other
    positions.

    weight: (dst.size, src.size), real or complex. first_output: number of the first ciphertext of y in the
    plan. For each output position the copy at the least non-negative distance is read, so that with copies
    about src.blocks diagonals suffice where 2 * blocks - 1 are needed without.
    """
    if weight.shape != (dst.size, src.size):
        raise ShapeError(
            f"linear layer: weight {weight.shape}, layouts {(dst.size, src.size)}", hint="(outputs, inputs)"
        )
    places: list[IntArray] = []
    parts: list[WeightBlock] = []
    for i, j in product(range(src.count), range(dst.count)):
        ins, outs = src.home[i] >= 0, dst.home[j] >= 0
        cells = _cells(ins.tobytes(), outs.tobytes(), src.blocks[i], src.copies(i))
        part = WeightBlock(cells, weight[np.ix_(dst.home[j][outs], src.home[i][ins])])
        steps = cells.steps[part.nonzero]
        if len(steps):
            places.append(np.stack([np.full_like(steps, first_output + j), np.full_like(steps, i), steps], 1))
            parts.append(part)
    if not parts:
        raise ShapeError("linear layer: weights that are all zero", hint="give at least one weight")
    return Diagonals(np.concatenate(places), tuple(parts))


@dataclass(frozen=True, eq=False)
class Cells:
    """Where the numbers of a weight block stand in its diagonals.

    window: positions of a diagonal. steps: their rotations, in order. flat: [outputs, inputs] of
    diagonal * window + position.
    """

    window: int
    steps: IntArray
    flat: IntArray


@dataclass(frozen=True, eq=False)
class WeightBlock:
    """The diagonals of a block of weights that are not zero, a `Part` of a table. weights: (outputs,
    inputs)."""

    cells: Cells
    weights: Array

    @cached_property
    def nonzero(self) -> NDArray[np.bool_]:
        """Which of the cells' diagonals are not zero."""
        flags = np.full(len(self.cells.steps), bool(self.weights.all()))
        if not flags.all():
            flags[self.cells.flat[self.weights != 0] // self.cells.window] = True
        return flags

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which of the diagonals kept hold a number: all of them."""
        return np.ones(np.count_nonzero(self.nonzero), dtype=bool)

    @cached_property
    def real(self) -> bool:
        """Whether no weight has an imaginary part."""
        return not (np.iscomplexobj(self.weights) and self.weights.imag.any())

    @property
    def vectors(self) -> Array:
        """[diagonals, window]."""
        table = np.zeros((len(self.cells.steps), self.cells.window), self.weights.dtype)
        table.reshape(-1)[self.cells.flat] = self.weights
        return table if self.nonzero.all() else table[self.nonzero]


@lru_cache(maxsize=KEPT)
def _cells(inputs: bytes, outputs: bytes, block: int, copies: int) -> Cells:
    """Places the numbers of a block in its diagonals. inputs, outputs: a flag for each position of a window
    that has a feature, as bytes."""
    ins, outs = (np.flatnonzero(np.frombuffer(side, bool)) for side in (inputs, outputs))
    steps, rows = np.unique(_distance(ins - outs[:, None], block, copies), return_inverse=True)
    window = len(outputs)
    return Cells(window, steps, rows.reshape(len(outs), len(ins)) * window + outs[:, None])


def _distance(k: IntArray, block: int, copies: int) -> IntArray:
    """k + c*block for the first copy c that makes it non-negative, else for the last copy."""
    return k + block * np.clip(-(k // block), 0, copies - 1)


def restore_copies(be: Backend, cts: Sequence[Ct], layout: FeatureLayout) -> Cts:
    """Ciphertexts that are zero outside the first copy -> with copies. log2(copies) rotations each, no
    level."""
    out = []
    for ct, block in zip(cts, layout.blocks, strict=True):
        step = block
        while step < layout.shape.window:
            ct = be.add(ct, be.rotate(ct, -step))
            step *= 2
        out.append(ct)
    return tuple(out)
