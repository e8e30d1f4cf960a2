"""Rows of a table of integers by one number each, and which of them are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def codes(table: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """One integer for each row of a table of integers, ordered as the rows are."""
    columns = table.astype(np.int64)
    low = columns.min(axis=0)
    found = np.zeros(len(columns), dtype=np.int64)
    for column, size in zip((columns - low).T, columns.max(axis=0) - low + 1, strict=True):
        found = found * size + column
    return found


def distinct(places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """(rows where each place stands first, in their order; for each row, which of these it is)."""
    return first_uses(codes(places))


def first_uses(codes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """(where each code stands first, in their order; for each code, which of these it is)."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse.reshape(-1)]
