"""The last attention of a model that reads its first token alone: one query over all keys.

A single query needs one product with the keys in place of one for each distance of tokens: the score of key j
stays at token j, and so do its exponential and its value. What follows works on the first token alone. A
layout says how products are added up over a head, and how attended values are added up over tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tacita.layouts.arrays import Array, IntArray
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.packings.base import Operation
from tacita.packings.encoding import WeightBias
from tacita.packings.shared.linear import Map, vector_linear
from tacita.packings.weights import AttentionPlan, RotaryAngles, Side, crossed, normalised, turned
from tacita.slots.base import Backend, Ct, Cts


class OneQuery(ABC):
    """Attention of query 0 over all keys. query: from the first token, at every key. key, value: of x."""

    plan: AttentionPlan
    query: Map
    key: Map
    value: Map

    @abstractmethod
    def select(self, be: Backend, x: Cts) -> Cts:
        """The first token of x in the layout in which the query is read. One level."""

    def select_residual(self, be: Backend, x: Cts) -> Cts:
        """The first token of the residual in the layout of the result. One level."""
        return self.select(be, x)

    def begin(self, name: str, x: str, residual: str) -> tuple[list[Operation], str]:
        """Selects the first token and leaves its scores: (operations, the tensor of the residual's first
        token). x, residual: live tensors."""
        first = f"{name}.first"
        back = first if residual == x else f"{name}.residual"

        def select(be: Backend, queried: Cts, added: Cts) -> tuple[Cts, ...]:
            row = self.select(be, queried)
            return (row,) if back == first else (row, self.select_residual(be, added))

        writes = (first,) if back == first else (first, back)
        normed, roots = self.plan.roots(name, (x, first), self.squares)
        operations = [
            Operation.of(f"{name}.select", (x, residual), writes, select),
            *normed,
            Operation.of(f"{name}.scores", (x, first, *roots), f"{name}.scores", self.scores),
        ]
        return operations, back

    @abstractmethod
    def squares(self, be: Backend, x: Cts, first: Cts) -> tuple[Cts, Cts]:
        """Variances of the query, for every key, and of the keys, where they are normalised."""

    @abstractmethod
    def _normalised(self, be: Backend, queries: Cts, keys: Cts, roots: Sequence[Cts]) -> tuple[Cts, Cts]:
        """Queries and keys times their roots, plus their betas. One level."""

    @abstractmethod
    def _turned(self, be: Backend, queries: Cts, back: RotaryAngles) -> Cts:
        """The one query turned back by each token's angles, so that keys stay as they are. One level."""

    @abstractmethod
    def _scored(self, be: Backend, queries: Cts, keys: Cts, first: Cts) -> Cts:
        """The products of a head's features added up, stored for exp."""

    def _query_source(self, x: Cts, first: Cts) -> Cts:
        """The tensor that the query is read from."""
        return first

    def scores(self, be: Backend, x: Cts, first: Cts, *roots: Cts) -> Cts:
        """Scores of query 0 at every key, stored for exp. Levels below x and first: one, and those of the
        product and of the sum over a head (2 in all, or 3 in rows); one more below first with rotary
        positions, and one below both with roots of normalised queries and keys."""
        queries, keys = self.query.apply(be, self._query_source(x, first)), self.key.apply(be, x)
        if roots:
            queries, keys = self._normalised(be, queries, keys, roots)
        if (angles := self.plan.positional.rotary) is not None:
            queries = self._turned(be, queries, angles.back)
        return self._scored(be, queries, keys, first)


class TextQuery(OneQuery):
    """One query of one text; the result is a vector.

    source, heads: layouts of x, and of queries, keys and values. places: the feature at each position of the
    ciphertexts of heads. asked: that of the tensor that the query is read from. affine: as of `Linear`.
    values, attended: factors of values as they are stored, and of what is stored of attended ones.
    """

    def __init__(
        self,
        plan: AttentionPlan,
        affine: Callable[[Array, Array, Any, Any], Map],
        layouts: tuple[Any, Any],
        places: Sequence[IntArray],
        asked: IntArray,
        vector: VectorLayout,
        *,
        values: float,
        attended: float,
    ) -> None:
        """Builds all maps. layouts: source and heads."""
        self.plan, self.vector = plan, vector
        self._affine, (self.source, self.heads) = affine, layouts
        self.places, self.asked = places, asked
        self._build(values)
        self.projection = CyclicMap.build(*plan.projection(1.0 / attended), places, [vector.index])
        self._add = vector_linear(vector).adder(plan.output)

    def _build(self, values: float) -> None:
        """Builds the maps to queries, keys and values, these times a factor."""
        pairs = self.plan.key(), self.plan.value(values)
        self.query = self._query(self.plan.query(), crossing=self.plan.positional.rotary is not None)
        self.key, self.value = (self._affine(*pair, self.source, self.heads) for pair in pairs)

    @abstractmethod
    def _variances(self, be: Backend, side: Side, squares: Cts) -> Cts:
        """Variances of the results of a side's `squared` map, stored for its rsqrt, wherever a head is."""

    @property
    @abstractmethod
    def _token_of_slot(self) -> IntArray:
        """The tokens of one period of slots, broadcast with `places`."""

    def _query(self, pair: WeightBias, *, crossing: bool = False) -> CyclicMap:
        """The query's map to every place of a key; with rotary positions then that of its `crossed` rows."""
        if not crossing:
            return CyclicMap.build(*pair, [self.asked], self.places)
        weight, bias = (np.concatenate([side, crossed(side, self.plan.heads)]) for side in pair)
        further = [np.where(row >= 0, row + len(pair[1]), -1) for row in self.places]
        return CyclicMap.build(weight, bias, [self.asked], [*self.places, *further])

    def squares(self, be: Backend, x: Cts, first: Cts) -> tuple[Cts, Cts]:
        """Variances of the query, for every key, and of the keys. Levels below x and first: one, and those of
        `_variances`."""
        (ours, theirs), (queries, keys) = self.plan.squared(), self.plan.normed
        of_first = self._query(ours).apply(be, self._query_source(x, first))
        of_all = self._affine(*theirs, self.source, self.heads).apply(be, x)
        return self._variances(be, queries, of_first), self._variances(be, keys, of_all)

    def _normalised(self, be: Backend, queries: Cts, keys: Cts, roots: Sequence[Cts]) -> tuple[Cts, Cts]:
        ours, theirs = self.plan.betas()
        rotary = self.plan.positional.rotary is not None
        sides = [ours, crossed(ours, self.plan.heads)] if rotary else [ours]
        betas = [v for side in sides for v in self.heads.vectors(side)]
        whole, copies = roots[0] * (len(queries) // len(roots[0])), len(keys) // len(roots[1])
        return (
            tuple(normalised(be, queries, whole, betas)),
            tuple(normalised(be, keys, roots[1] * copies, self.heads.vectors(theirs))),
        )

    def _turned(self, be: Backend, queries: Cts, back: RotaryAngles) -> Cts:
        sides = [back.of_features(row, self._token_of_slot) for row in self.places]
        cos, sin = ([side[i].reshape(-1) for side in sides] for i in (0, 1))
        half = len(queries) // 2
        return tuple(turned(be, queries[:half], queries[half:], cos, sin))

    def end(self, be: Backend, attended: Sequence[Ct], first: Cts) -> Cts:
        """(Attention output + first) / exit, centred or not. One level below both. first: of the residual."""
        return self._add(be, self.projection.apply(be, attended), first)
