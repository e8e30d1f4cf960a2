"""What depends on the positions of two tokens alone: who sees whom, rotary angles, buckets of distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import CAUSAL as CAUSAL
from tacita.blocks.base import Reach, Relative, Rotary

Array = NDArray[np.float64]


def seen(shape: tuple[int, int], reach: Reach) -> Array:
    """(queries, keys): 1 where a query sees a key, else 0. The queries are those of the first tokens.

    >>> seen((3, 3), (1, 0))
    array([[1., 0., 0.],
           [1., 1., 0.],
           [0., 1., 1.]])
    """
    ahead = _ahead(shape)
    back, on = reach
    near = np.ones(shape, bool) if back is None else ahead >= -back
    return np.asarray(near & (True if on is None else ahead <= on), np.float64)


def visible(mask: Array, shape: tuple[int, int], reach: Reach) -> Array:
    """(..., queries, keys): 1 where a query sees a real key, else 0. mask: (..., keys).

    Where nothing ahead is seen, the queries are those of the last tokens, and each sees itself even if it is
    padding. A prompt is padded on its left with copies of its first token, which sees nobody else either: so
    every value of a padded row is one that the first real row takes (see `front.embed`).

    >>> visible(np.array([0.0, 1.0, 1.0]), (2, 3), CAUSAL)
    array([[0., 1., 0.],
           [0., 1., 1.]])
    """
    queries, keys = shape
    if reach[1] != 0:
        return np.asarray(mask[..., None, :] * seen(shape, reach))
    rows = slice(keys - queries, None)
    near = seen((keys, keys), reach)[rows]
    return np.asarray(np.maximum(mask[..., None, :] * near, np.eye(keys)[rows]))


def angles(rotary: Rotary, shape: tuple[int, int], first: int = 0) -> tuple[Array, Array]:
    """Cosines and sines, (tokens, head size / 2) each, of a tensor (..., tokens, head size) whose first
    token has the position `first`."""
    tokens, size = shape
    turns = rotary.base ** (-2.0 * np.arange(size // 2) / size)
    phases = np.arange(first, first + tokens)[:, None] * (-turns if rotary.back else turns)
    return np.cos(phases), np.sin(phases)


def buckets(relative: Relative, shape: tuple[int, int]) -> NDArray[np.intp]:
    """(queries, keys): the row of the table for each pair.

    Half of the buckets are for keys ahead. Of each half, half hold one distance each, and the others grow
    with the logarithm up to `distance`; what is farther shares the last.
    """
    ahead, half = _ahead(shape), relative.buckets // 2
    far, exact = np.abs(ahead), half // 2
    ratio = np.log(np.maximum(far, 1) / exact) / np.log(relative.distance / exact)
    grown = np.minimum(exact + (ratio * (half - exact)).astype(np.intp), half - 1)
    return np.asarray(np.where(ahead > 0, half, 0) + np.where(far < exact, far, grown), np.intp)


def _ahead(shape: tuple[int, int]) -> NDArray[np.intp]:
    """(queries, keys): how far the key is ahead of the query."""
    queries, keys = shape
    return np.asarray(np.arange(keys)[None, :] - np.arange(queries)[:, None], np.intp)
