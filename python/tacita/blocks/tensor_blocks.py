"""What each block means, written once on the operations of `tensors`.

The last product of a block is put off (`Deferred`) until it is known what is added to it and whether the
client learns it: on shares a sum inside a product costs nothing and is rounded once, and an opened product
must hide its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic

from tacita.blocks.base import Attention, Dense, FeedForward, Norm, Positions, Powers
from tacita.blocks.tensors import Operations, T, W


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
        scores = ops.scores(query, key, name)
        if a.relative:
            scores = ops.biased(scores, a.relative, name)
        if isinstance(a.weights, Powers):
            weights = ops.powers(scores, a.weights, name)
        else:
            weights = ops.softmax(scores, name, a.reach)
        mixed = ops.merge(ops.mix(weights, value, name))
        return self._defer(mixed, a.output)

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
