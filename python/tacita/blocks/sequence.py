"""What depends on the positions of two tokens alone: who sees whom, rotary angles, buckets of distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import BEHIND, CAUSAL, Attention, Reach, Relative, Rotary, T
from tacita.errors import PlanError

Array = NDArray[np.float64]


def reach_mask(shape: tuple[int, int], reach: Reach) -> Array:
    """Returns (queries, keys): 1 where a query sees a key, else 0. The queries are those of the first tokens.

    >>> reach_mask((3, 3), (1, 0))
    array([[1., 0., 0.],
           [1., 1., 0.],
           [0., 1., 1.]])
    """
    ahead = _ahead(shape)
    back, on = reach
    near = np.ones(shape, bool) if back is None else ahead >= -back
    return np.asarray(near & (True if on is None else ahead <= on), np.float64)


def visible(mask: Array, shape: tuple[int, int], reach: Reach) -> Array:
    """Returns (..., queries, keys): 1 where a query sees a real key, else 0. mask: (..., keys).

    Where nothing ahead is seen, the queries are those of the last tokens, and each sees itself even if it is
    padding. A prompt is padded on its left with copies of its first token, which sees nobody else either: so
    every value of a padded row is one that the first real row takes (see `texts.embed`).

    >>> visible(np.array([0.0, 1.0, 1.0]), (2, 3), CAUSAL)
    array([[0., 1., 0.],
           [0., 1., 1.]])
    """
    queries, keys = shape
    if reach[1] != 0:
        return np.asarray(mask[..., None, :] * reach_mask(shape, reach))
    rows = slice(keys - queries, None)
    near = reach_mask((keys, keys), reach)[rows]
    return np.asarray(np.maximum(mask[..., None, :] * near, np.eye(keys)[rows]))


def angles(rotary: Rotary, shape: tuple[int, int], first: int = 0) -> tuple[Array, Array]:
    """Returns cosines and sines, (tokens, head size / 2) each, of a tensor (..., tokens, head size) whose
    first token has the position `first`."""
    tokens, size = shape
    turns = rotary.base ** (-2.0 * np.arange(size // 2) / size) * (rotary.scales or 1.0)
    phases = np.arange(first, first + tokens)[:, None] * (-turns if rotary.back else turns)
    return np.cos(phases), np.sin(phases)


def buckets(relative: Relative, shape: tuple[int, int]) -> NDArray[np.intp]:
    """Returns (queries, keys): the row of the table for each pair.

    Half of the buckets are for keys ahead. Of each half, half hold one distance each, and the others grow
    with the logarithm up to `distance`; what is farther shares the last.
    """
    ahead, half = _ahead(shape), relative.buckets // 2
    far, exact = np.abs(ahead), half // 2
    ratio = np.log(np.maximum(far, 1) / exact) / np.log(relative.distance / exact)
    grown = np.minimum(exact + (ratio * (half - exact)).astype(np.intp), half - 1)
    return np.asarray(np.where(ahead > 0, half, 0) + np.where(far < exact, far, grown), np.intp)


def _ahead(shape: tuple[int, int]) -> NDArray[np.intp]:
    """Returns (queries, keys): how far the key is ahead of the query."""
    queries, keys = shape
    return np.asarray(np.arange(keys)[None, :] - np.arange(queries)[:, None], np.intp)


# A causal text the other way round: its last token first, the others behind it, padding at the end.
#
# Slots read an answer from the first row, and attention of one query is that of row 0. A decoder answers from
# its last token, whose row depends on the length of the text, which the server must not know. So the client
# lays the rows in reverse, and the model is declared so as to say the same of reversed rows:
#
#     a query sees itself and the tokens before it     ->  itself and the rows behind it
#     rotary positions turn by t                       ->  by -t: scores know the distance alone
#     the last rows                                    ->  the first ones
#
# Rows of padding, behind the text, see nobody and are seen by nobody. Learned positions are added by the
# client before it reverses the rows.


def latest(a: Attention) -> Attention:
    """Returns what a causal attention is for rows in reverse. Raises PlanError for one that is not causal, or
    that knows distances by a table."""
    if a.reach != CAUSAL or a.relative:
        what = f"reversed rows of {a.query.name}"
        raise PlanError(what, hint="only of causal attention, without a table")
    return replace(a, reach=BEHIND, rotary=replace(a.rotary, back=True) if a.rotary else None)


# What a decoder remembers of the tokens before those that it is asked about: keys and values, by node.
#
#     ops = FloatTensors(weights, np.ones(5), past=Past())        # a prompt of five tokens
#     forward(TensorBlocks(ops), config, hidden)
#     ops = FloatTensors(weights, np.ones(6), past=ops.past)      # one more
#     forward(TensorBlocks(ops), config, one)
#
# `forward` is the same for both: an interpreter that was given a past puts keys and values of each attention
# behind those that it holds, and counts positions from there. The mask is of all tokens, those of the past
# first. A past never changes, so a step that failed half-way can be made again.


@dataclass(frozen=True)
class Past(Generic[T]):
    """What a decoder remembers. rows: tokens that it holds. nodes: keys, turned by their positions, and
    values (..., key heads, rows, d) of each attention."""

    rows: int = 0
    nodes: Mapping[str, tuple[T, T]] = field(default_factory=dict)


class Keeper(Generic[T]):
    """Holds an interpreter's past and collects the next one. past: None where nothing is to be kept."""

    def __init__(self, past: Past[T] | None) -> None:
        self._past, self._next = past, dict[str, tuple[T, T]]()
        self.first = past.rows if past else 0

    def before(self, name: str) -> tuple[T, T] | None:
        """Returns keys and values of the node's past, if it has one."""
        return self._past.nodes.get(name) if self._past else None

    def keep(self, name: str, keys: T, values: T) -> tuple[T, T]:
        """Puts keys and values into the next past, and returns the same two."""
        if self._past is not None:
            self._next[name] = keys, values
        return keys, values

    def then(self, rows: int) -> Past[T]:
        """Returns the past after a walk, which holds `rows` tokens."""
        return Past(rows, self._next)
