"""Tiles of attention: some heads and rows of queries at a time, with the keys within their reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.two_party.arithmetic.base import WHOLE, Array

Ends = tuple[int, int]  # the first, and the one behind the last
Reach = tuple[int | None, int | None]  # as in `blocks.base`, which clients lack


@dataclass(frozen=True)
class Tile:
    """Some heads and rows of queries, and the keys that are in reach of them. first: row of the first query,
    counted from the first of these keys."""

    heads: Ends
    queries: Ends
    keys: Ends
    first: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Heads, rows of queries and of keys."""
        heads, queries, keys = (end - begin for begin, end in (self.heads, self.queries, self.keys))
        return heads, queries, keys


def tiles_of(p: Mapping[str, Any], heads: int, queries: int, keys: int) -> Iterator[Tile]:
    """Yields the tiles of a step, head after head and then in the order of their queries; of a text without
    more rows than a tile there is one. Where nothing ahead is seen the queries are the last rows."""
    rows, back, on = p["rows"], p["back"], p["on"]
    if queries <= rows:
        yield Tile((0, heads), (0, queries), (0, keys), keys - queries if on == 0 else 0)
        return
    first = keys - queries if on == 0 else 0  # row of the first query
    for head in range(0, heads, p["heads"]):
        for begin in range(0, queries, rows):
            end = min(begin + rows, queries)
            low = 0 if back is None else max(0, first + begin - back)
            high = keys if on is None else min(keys, first + end + on)
            of_heads = head, min(head + p["heads"], heads)
            yield Tile(of_heads, (begin, end), (low, high), first + begin - low)


def visible(
    mask: Array, shape: tuple[int, ...], back: int | None, on: int | None, first: int | None = None
) -> Any:
    """Returns which keys each query sees, (queries, keys), as `blocks.sequence.visible` does. Where nothing
    ahead is seen the queries are those of the last rows, and each sees itself. first: row of the first query
    among the keys, of a tile."""
    queries, keys = shape
    if first is None:
        first = keys - queries if on == 0 else 0
    ahead = np.arange(keys)[None] - np.arange(first, first + queries)[:, None]
    near = (True if back is None else ahead >= -back) & (True if on is None else ahead <= on)
    real = near & (mask > 0.0)[None]
    return real | (ahead == 0) if on == 0 else real & np.ones(shape, bool)


# Tiles of attention: a text of more than 512 tokens has its scores computed for some heads and rows of
# queries at a time. Both parties send the keys of a tile anew, for what six rows of its scores take.

MOST_SCORES = 1 << 21  # of a tile: the engine takes 0.45 kB for each, 0.9 GB a party
ROWS_OF_TILES, LEAST_ROWS = 256, 64  # of queries; of a short window


def tiles_for(heads: Ends, scores: Ends, reach: Reach) -> Ends | None:
    """Returns heads and queries of a tile, a power of two; None where all are one. Within a window of keys a
    tile is as long as the window: half of its keys are in reach of a query then. Heads that share keys stay
    together, all of them: how they are regrouped is a number of the program. heads: of queries, and of those
    how many share keys. scores: queries and keys of all.

    >>> [tiles_for((12, 1), (8192, 8192), reach) for reach in ((None, None), (None, 0), (64, 64))]
    [(1, 256), (1, 256), (12, 128)]
    >>> tiles_for((12, 1), (512, 512), (64, 64)), tiles_for((32, 4), (1, 8192), (None, 0))
    (None, None)
    """
    (count, group), (queries, keys) = heads, scores
    least = count if group > 1 else 1
    window = None if None in reach else sum(each or 0 for each in reach)
    rows = ROWS_OF_TILES if window is None else max(LEAST_ROWS, window)
    width = keys if window is None else min(keys, rows + window)
    rows = 1 << max(min(rows, MOST_SCORES // (least * width)), 1).bit_length() - 1
    at_once = min(count, max(least, MOST_SCORES // (width * rows)))
    return (at_once, rows) if keys > WHOLE and rows < queries else None
