"""How the heads of an attention share a window, and the mask that the client encrypts for each such window.

See `heads` for what a window's copies and shifts are for. A client needs this part alone: where masks go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacita.layouts.arrays import Array, ceil_power, refuse
from tacita.layouts.rows import RowsShape


@dataclass(frozen=True)
class HeadWindow:
    """Some heads in one ciphertext. heads: their numbers. width: head size padded to a power of two."""

    shape: RowsShape
    heads: tuple[int, ...]
    width: int

    @property
    def half(self) -> int:
        """Positions of a folded (complex) head; the size of a group."""
        return self.width // 2

    @property
    def block(self) -> int:
        """Positions of one copy of all folded heads."""
        return self.half * ceil_power(len(self.heads))

    @property
    def copies(self) -> int:
        """Copies of the block in a window; each serves its own range of shifts."""
        return min(self.shape.window // self.block, self.shape.tokens)

    @property
    def shifts(self) -> int:
        """R: products needed to cover all key shifts."""
        return self.shape.tokens // self.copies

    @property
    def pairs(self) -> int:
        """Products needed where the parts of one have two shifts, r and r + pairs."""
        return max(1, self.shifts // 2)

    @property
    def score_cts(self) -> int:
        """Ciphertexts of scores."""
        return -(-self.shifts // self.half)

    @property
    def shared(self) -> bool:
        """Whether unnormalised context and row sums fit one real ciphertext, [context | sums]."""
        return 2 * self.sum_offset <= self.shape.window

    @property
    def sum_offset(self) -> int:
        """Positions of all heads at full width: where row sums begin when they share a ciphertext with the
        context."""
        return self.width * ceil_power(len(self.heads))

    @cached_property
    def groups(self) -> Array:
        """bool [window]: positions that belong to a group of some head in some copy."""
        return np.asarray(self.of_heads(np.ones(max(self.heads) + 1)) > 0.0)

    def of_heads(self, values: Array) -> Array:
        """[window]: values[head], of all heads of the model, at the groups of the window's heads, 0
        elsewhere."""
        block = np.zeros(self.block)
        block[: self.half * len(self.heads)] = np.repeat(values[list(self.heads)], self.half)
        vector = np.zeros(self.shape.window)
        vector[: self.block * self.copies] = np.tile(block, self.copies)
        return vector

    def hot(self, position: int) -> Array:
        """[window]: 1 at one position of every group."""
        return np.where(self.groups & (np.arange(self.shape.window) % self.half == position), 1.0, 0.0)

    def place(self, head: int, query: int, key: int) -> tuple[int, int]:
        """(ciphertext, slot) of a score. head: index within the window."""
        copy, r = divmod((key - query) % self.shape.tokens, self.shifts)
        position = copy * self.block + head * self.half + r % self.half
        return r // self.half, query * self.shape.window + position


def placed(window: HeadWindow, table: Array) -> list[Array]:
    """Places a table (heads of the model, queries, keys) where each score of the window's heads is, zero
    elsewhere: a slot vector for each of the window's ciphertexts of scores."""
    tokens, queries = window.shape.tokens, np.arange(window.shape.tokens)
    scores = np.zeros((window.score_cts, tokens, window.shape.window))
    for number, head in enumerate(window.heads):
        for shift in range(tokens):
            ct, slot = window.place(number, 0, shift)
            scores[ct, :, slot] = table[head, queries, (queries + shift) % tokens]
    return list(scores.reshape(window.score_cts, -1))


def head_windows(shape: RowsShape, heads: int, head_size: int) -> tuple[HeadWindow, ...]:
    """All heads in order, as many per window as fit at full width. Errors: ShapeError when one does not
    fit."""
    width = max(2, ceil_power(head_size))
    if width > shape.window:
        hint = f"a window has {shape.window} positions; use fewer tokens or a larger ring"
        raise refuse("rows", f"heads of size {head_size} (padded to {width})", hint)
    per_window = shape.window // width
    chunks = [tuple(range(a, min(a + per_window, heads))) for a in range(0, heads, per_window)]
    return tuple(HeadWindow(shape, chunk, width) for chunk in chunks)


def mask_numbers(windows: Sequence[HeadWindow]) -> list[int]:
    """Which mask ciphertext each window uses: one per distinct number of copies, in order of first use."""
    kinds = list(dict.fromkeys((w.copies, w.block) for w in windows))
    return [kinds.index((w.copies, w.block)) for w in windows]


def pack_masks(windows: Sequence[HeadWindow], keep: Array) -> list[Array]:
    """Builds one slot vector per mask ciphertext from keep (tokens,): copy c holds keep[i + c*shifts] at
    token i."""
    numbers = mask_numbers(windows)
    firsts = [windows[numbers.index(n)] for n in sorted(set(numbers))]
    return [_mask(w, keep) for w in firsts]


def _mask(w: HeadWindow, keep: Array) -> Array:
    rows = np.zeros((w.shape.tokens, w.shape.window))
    for c in range(w.copies):
        rows[:, c * w.block : (c + 1) * w.block] = np.roll(keep, -c * w.shifts)[:, None]
    return rows.reshape(-1)
