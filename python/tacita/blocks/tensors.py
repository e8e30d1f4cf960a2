"""Operations on tensors, and what each block means, written once on them.

Interpreters of this floor (floats, integers with the protocols' roundings, one party's shares, their costs)
get every block for nothing. Tensors have the shape (..., rows, columns). Weights belong to the interpreter,
which looks them up by the names in the declarations; so do bounds, by the names of nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import (
    EVERYWHERE,
    Attention,
    Dense,
    FeedForward,
    Norm,
    Positions,
    Powers,
    Reach,
    Relative,
    Rotary,
)

T = TypeVar("T")  # a tensor of the interpreter
W = TypeVar("W")  # attention weights of the interpreter, normalised or not


class Operations(Protocol[T, W]):
    """Operations on tensors. Costs and errors of each are those of the interpreter; shapes are the same for
    all."""

    def enter(self, name: str, x: T | None = None) -> None:
        """Says that the node `name` begins, with x where that is known (progress, reports, records)."""

    def linear(self, x: T, maps: tuple[Dense, ...], add: T | None = None, *, opened: bool = False) -> T:
        """Applies several maps to one input, side by side, and adds `add` of the result's shape.

        (..., rows, inputs) -> (..., rows, sum of outputs). opened: the client learns the result next.
        """

    def add(self, x: T, y: T) -> T:
        """Returns x + y."""

    def scaled(self, x: T, factor: float) -> T:
        """Returns x times a public number."""

    def positions(self, x: T, p: Positions) -> T:
        """Adds rows that the party with the model knows."""

    def columns(self, x: T, widths: tuple[int, ...]) -> tuple[T, ...]:
        """Cuts the tensor into blocks of so many columns."""

    def rows(self, x: T, count: int) -> T:
        """Returns the first rows, or for a negative number the last ones."""

    def heads(self, x: T, count: int) -> T:
        """Splits columns into heads: (..., rows, count * d) -> (..., count, rows, d)."""

    def merge(self, x: T) -> T:
        """Inverts `heads`."""

    def turn(self, x: T, rotary: Rotary) -> T:
        """Turns each row of (..., heads, rows, d) by its position, which begins behind the past."""

    def with_past(self, name: str, keys: T, values: T) -> tuple[T, T]:
        """Returns keys and values (..., key heads, rows, d) of the node behind those of its past, all of
        which an interpreter that was given a past keeps for the next step; the same two where it was not."""

    def attend(self, run: Callable[[T, T, T], T], parts: tuple[T, T, T], name: str, reach: Reach) -> T:
        """Returns `run` of queries, keys and values, (..., heads, rows, d): of all at once, or tile by tile
        of some queries and the keys within reach of them."""

    def scores(self, queries: T, keys: T, name: str) -> T:
        """Multiplies queries (..., heads, rows, d) by keys (..., key heads, tokens, d): (..., heads, rows,
        tokens), not scaled. Neighbouring heads share keys where these have fewer (`regrouped`)."""

    def biased(self, scores: T, relative: Relative, name: str) -> T:
        """Adds what the distance of key and query adds to a score."""

    def softmax(self, scores: T, name: str, reach: Reach = EVERYWHERE) -> W:
        """Returns the weights of the real keys within reach of each query."""

    def powers(self, scores: T, variant: Powers, name: str) -> W:
        """Returns the weights of the real keys, by powers instead of exponentials."""

    def mix(self, weights: W, values: T, name: str) -> T:
        """Multiplies weights (..., heads, rows, tokens) by values (..., key heads, tokens, d): (..., heads,
        rows, d)."""

    def function(self, x: T, kind: str, name: str) -> T:
        """Computes a function by its name, element by element. Raises PlanError for one that the interpreter
        lacks."""

    def times(self, x: T, y: T, name: str) -> T:
        """Returns x * y, element by element: a gate."""

    def norm(self, x: T, norm: Norm, name: str) -> T:
        """Normalises each row."""

    def mean(self, x: T, name: str, *, opened: bool = False) -> T:
        """Averages the rows of real tokens: (..., 1, columns). opened: the client learns the result next."""


# Rearrangements that every interpreter on arrays does alike: no arithmetic, no messages.

D = TypeVar("D", bound=np.generic)


def columns(x: NDArray[D], widths: Sequence[int]) -> tuple[NDArray[D], ...]:
    """Cuts an array into blocks of so many columns."""
    return tuple(np.split(x, np.cumsum(widths)[:-1], axis=-1))


def rows(x: NDArray[D], count: int) -> NDArray[D]:
    """Returns the first rows, or for a negative number the last ones."""
    return x[..., :count, :] if count >= 0 else x[..., count:, :]


def regrouped(x: NDArray[D], heads: int) -> NDArray[D]:
    """Reshapes (..., more heads, rows, d) to (..., heads, all rows of neighbours, d), or back: heads of
    queries that share keys become the rows of one head, whose scores are then one product.

    >>> regrouped(np.zeros((6, 5, 4)), 2).shape
    (2, 15, 4)
    """
    return x if x.shape[-3] == heads else x.reshape(*x.shape[:-3], heads, -1, x.shape[-1])


def heads(x: NDArray[D], count: int) -> NDArray[D]:
    """Splits columns into heads: (..., rows, count * d) -> (..., count, rows, d)."""
    return np.moveaxis(x.reshape(*x.shape[:-1], count, -1), -2, -3)


def merge(x: NDArray[D]) -> NDArray[D]:
    """Inverts `heads`."""
    moved: NDArray[Any] = np.moveaxis(x, -3, -2)
    return moved.reshape(*moved.shape[:-2], -1)


# What each block means.
#
# The last product of a block is put off (`Deferred`) until it is known what is added to it and whether the
# client learns it: on shares a sum inside a product costs nothing and is rounded once, and an opened product
# must hide its noise.


@dataclass(frozen=True)
class Deferred(Generic[T]):
    """A tensor that is not computed yet. run: (what is added to it or None, whether it is opened) -> it."""

    run: Callable[[T | None, bool], T]


class TensorBlocks(Generic[T, W]):
    """The blocks (see `base.Blocks`) on tensors of an interpreter; values are its tensors, or `Deferred`."""

    def __init__(self, operations: Operations[T, W]) -> None:
        self._ops = operations

    def take(self, x: T | Deferred[T], rows: int | None) -> T | Deferred[T]:
        return x if rows is None else self._ops.rows(self._compute(x), rows)

    def attention(
        self, x: T | Deferred[T], a: Attention, name: str, rows: int | None = None
    ) -> T | Deferred[T]:
        """Computes queries, keys and values in one product; queries apart where only the first rows ask."""
        ops, x = self._ops, self._compute(x)
        ops.enter(name, x)
        query, *both = self._projections(x, a, rows)
        query, key, value = ops.heads(query, a.heads), *(ops.heads(part, a.key_heads) for part in both)
        query, key = self._apply_positions(query, key, a, name)
        key, value = ops.with_past(name, key, value)
        if rows is not None and rows < 0:  # their positions are known now
            query = ops.rows(query, rows)

        def run(query: T, key: T, value: T) -> T:
            scores = ops.scores(query, key, name)
            if a.relative:
                scores = ops.biased(scores, a.relative, name)
            if isinstance(a.weights, Powers):
                return ops.mix(ops.powers(scores, a.weights, name), value, name)
            return ops.mix(ops.softmax(scores, name, a.reach), value, name)

        return self._defer(ops.merge(ops.attend(run, (query, key, value), name, a.reach)), a.output)

    def feed_forward(self, x: T | Deferred[T], f: FeedForward, name: str) -> T | Deferred[T]:
        x = self._compute(x)
        self._ops.enter(name, x)
        if f.gate is None:
            inner = self._ops.function(self._ops.linear(x, (f.wide,)), f.function, name)
            return self._defer(inner, f.narrow)
        gate, wide = self._ops.columns(self._ops.linear(x, (f.gate, f.wide)), _widths(f.gate, f.wide))
        inner = self._ops.times(self._ops.function(gate, f.function, name), wide, name)
        return self._defer(inner, f.narrow)

    def norm(self, x: T | Deferred[T], n: Norm, name: str) -> T | Deferred[T]:
        return self._ops.norm(self._compute(x), n, name)

    def add(self, x: T | Deferred[T], y: T | Deferred[T], factor: float = 1.0) -> T | Deferred[T]:
        """Adds inside the product, where one of the terms is put off."""
        if factor != 1.0:
            y = self._ops.scaled(self._compute(y), factor)
        if isinstance(y, Deferred):
            return y.run(self._compute(x), False)
        return x.run(y, False) if isinstance(x, Deferred) else self._ops.add(x, y)

    def linear(self, x: T | Deferred[T], d: Dense, name: str) -> T | Deferred[T]:
        x = self._compute(x)
        self._ops.enter(name, x)
        return self._defer(x, d)

    def function(self, x: T | Deferred[T], kind: str, name: str) -> T | Deferred[T]:
        self._ops.enter(name)
        return self._ops.function(self._compute(x), kind, name)

    def mean(self, x: T | Deferred[T], name: str) -> T | Deferred[T]:
        ops, x = self._ops, self._compute(x)  # the rows, once: it is the mean that waits

        def run(add: T | None, opened: bool) -> T:
            ops.enter(name, x)
            result = ops.mean(x, name, opened=opened)
            return result if add is None else ops.add(result, add)

        return Deferred(run)

    def positions(self, x: T | Deferred[T], p: Positions, name: str) -> T | Deferred[T]:
        self._ops.enter(name)
        return self._ops.positions(self._compute(x), p)

    def answer(self, x: T | Deferred[T]) -> T:
        """Opens what was put off; what is there already is the answer as it is."""
        return x.run(None, True) if isinstance(x, Deferred) else x

    def _projections(self, x: T, a: Attention, rows: int | None) -> tuple[T, ...]:
        ops, shrink = self._ops, 1.0 if a.normed else 1.0 / math.sqrt(a.head_size)
        query = replace(a.query, scale=a.query.scale * shrink)
        if rows is None or rows < 0:
            maps = (query, a.key, a.value)
            return ops.columns(ops.linear(x, maps), _widths(*maps))
        queries = ops.linear(ops.rows(x, rows), (query,))
        return queries, *ops.columns(ops.linear(x, (a.key, a.value)), _widths(a.key, a.value))

    def _apply_positions(self, query: T, key: T, a: Attention, name: str) -> tuple[T, T]:
        """Normalises queries and keys, then turns them by their positions, where the attention says so."""
        ops = self._ops
        if a.normed:
            ours, theirs = a.normed
            ours = replace(ours, scale=ours.scale / math.sqrt(a.head_size))
            query, key = ops.norm(query, ours, f"{name}.queries"), ops.norm(key, theirs, f"{name}.keys")
        if a.rotary:
            query, key = ops.turn(query, a.rotary), ops.turn(key, a.rotary)
        return query, key

    def _defer(self, x: T, dense: Dense) -> Deferred[T]:
        return Deferred(lambda add, opened: self._ops.linear(x, (dense,), add, opened=opened))

    def _compute(self, x: T | Deferred[T]) -> T:
        return x.run(None, False) if isinstance(x, Deferred) else x


def _widths(*maps: Dense) -> tuple[int, ...]:
    return tuple(d.outputs for d in maps)
