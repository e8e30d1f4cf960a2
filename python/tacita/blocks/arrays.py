"""Rearrangements that every interpreter on arrays does alike: no arithmetic, no messages."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

D = TypeVar("D", bound=np.generic)


def columns(x: NDArray[D], parts: int) -> tuple[NDArray[D], ...]:
    """`parts` equal blocks of columns."""
    return tuple(np.split(x, parts, axis=-1))


def rows(x: NDArray[D], count: int) -> NDArray[D]:
    """The first rows."""
    return x[..., :count, :]


def heads(x: NDArray[D], count: int) -> NDArray[D]:
    """(..., rows, count * d) -> (..., count, rows, d)."""
    return np.moveaxis(x.reshape(*x.shape[:-1], count, -1), -2, -3)


def merge(x: NDArray[D]) -> NDArray[D]:
    """The inverse of `heads`."""
    moved: NDArray[Any] = np.moveaxis(x, -3, -2)
    return moved.reshape(*moved.shape[:-2], -1)
