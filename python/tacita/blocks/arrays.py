"""Rearrangements that every interpreter on arrays does alike: no arithmetic, no messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

D = TypeVar("D", bound=np.generic)


def columns(x: NDArray[D], widths: Sequence[int]) -> tuple[NDArray[D], ...]:
    """Blocks of so many columns."""
    return tuple(np.split(x, np.cumsum(widths)[:-1], axis=-1))


def rows(x: NDArray[D], count: int) -> NDArray[D]:
    """The first rows, or for a negative number the last ones."""
    return x[..., :count, :] if count >= 0 else x[..., count:, :]


def regrouped(x: NDArray[D], heads: int) -> NDArray[D]:
    """(..., more heads, rows, d) -> (..., heads, all rows of neighbours, d), or back: heads of queries that
    share keys become the rows of one head, whose scores are then one product.

    >>> regrouped(np.zeros((6, 5, 4)), 2).shape
    (2, 15, 4)
    """
    return x if x.shape[-3] == heads else x.reshape(*x.shape[:-3], heads, -1, x.shape[-1])


def heads(x: NDArray[D], count: int) -> NDArray[D]:
    """(..., rows, count * d) -> (..., count, rows, d)."""
    return np.moveaxis(x.reshape(*x.shape[:-1], count, -1), -2, -3)


def merge(x: NDArray[D]) -> NDArray[D]:
    """The inverse of `heads`."""
    moved: NDArray[Any] = np.moveaxis(x, -3, -2)
    return moved.reshape(*moved.shape[:-2], -1)
