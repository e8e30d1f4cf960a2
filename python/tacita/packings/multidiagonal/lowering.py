"""The blocks of one text as operations on diagonals of all heads; what is not attention is that of
`shared`.

The request is `hidden` and `mask` (1/length at real tokens: by token, then in the layout of the scores).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property, lru_cache, partial

import numpy as np

from tacita.blocks.graph import Graph
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array, IntArray
from tacita.layouts.multidiagonal import Features, masks_of
from tacita.layouts.numbered import tensor_of
from tacita.layouts.registry import Shape
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.runs import HIDDEN, MASK, Request
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.packings.base import Block, Operation, Target, Tensor, heads_of
from tacita.packings.encoding import WeightBias, output_bound, real
from tacita.packings.multidiagonal.attention import (
    Attention,
    DiagonalSums,
    dots,
    variance,
)
from tacita.packings.multidiagonal.linear import Affine, linear_of, totals
from tacita.packings.operations import Answering, RowSums, softmax_operations
from tacita.packings.shared.first_token import TextQuery
from tacita.packings.shared.lowering import OneTextLowering
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionPlan, Side
from tacita.slots.base import Backend, Cts

# Attention of the first token alone: one query, and a vector as the result.
#
# The query is a map from the vector of token 0 to the layout of all tokens, so every token meets it: scores
# are sums over the features of a head, a single ciphertext. The mix is not summed over tokens by rotations: a
# map from the layout to a vector adds up all places that hold a feature, and that is the projection.


def _same(layout: Features, places: Sequence[Array]) -> CyclicMap:
    vector = VectorLayout(layout.shape.slots, layout.size)
    return CyclicMap.build(np.eye(layout.size), np.zeros(layout.size), places, [vector.index])


@lru_cache(maxsize=1)
def _first_of(layout: Features) -> CyclicMap:
    """Token 0 as a vector: 0.2 GB of vectors at BERT-base's size, which take seconds, in one layer alone."""
    _, t, _ = layout.shape.coordinates
    return _same(layout, [np.where(t == 0, row, -1) for row in layout.index])


class FirstTokenAttention(TextQuery):
    """Attention of query 0 over all keys. Build, then run the methods in order."""

    def __init__(self, plan: AttentionPlan, layout: Features) -> None:
        """Builds all maps. layout: of x."""
        vector, bound = VectorLayout(layout.shape.slots, layout.size), plan.specs.attended
        super().__init__(
            plan,
            Affine,
            (layout, layout),
            list(layout.index),
            vector.index,
            vector,
            values=1.0 / bound,
            attended=1.0 / (bound * output_bound(plan.specs.inverse)),
        )
        self._layout = layout

    def select(self, be: Backend, x: Cts) -> Cts:
        """Token 0 as a vector. One level."""
        return _first_of(self._layout).apply(be, x)

    @property
    def _token_of_slot(self) -> IntArray:
        return self._layout.shape.coordinates[1]

    def _variances(self, be: Backend, side: Side, squares: Cts) -> Cts:
        return variance(be, side, squares, self._layout)

    def _scored(self, be: Backend, queries: Cts, keys: Cts, first: Cts) -> Cts:
        """Token j of every diagonal holds key j."""
        total = totals(be, [dots(be, queries, keys)], self._layout)
        specs, added = self.plan.specs, self.plan.positional.added
        offset = specs.score_offsets(self._layout.heads)[:, None]
        scores = offset if added is None else offset + added[:, 0] * specs.score_scale
        return (be.add_vector(total, self._by_key(scores)),)

    @property
    def visible(self) -> list[Array] | None:
        """A mask, 1 at the keys that query 0 sees; None where it sees all."""
        row = self.plan.positional.seen_first
        return None if row is None else [self._by_key(np.tile(row, (self._layout.heads, 1)))]

    def _by_key(self, table: Array) -> Array:
        """Spreads a table (heads, keys or 1): at token j of a diagonal that of key j; zero where there is no
        head."""
        diagonal = np.zeros((table.shape[1], self._layout.shape.batch))
        diagonal[:, : self._layout.heads] = table.T
        return diagonal.reshape(-1)

    @cached_property
    def sums(self) -> RowSums:
        """Over the tokens, everywhere: log2(tokens) rotations."""
        shape = self._layout.shape
        total = partial(rotate_sum, width=shape.columns, step=shape.batch)
        return DiagonalSums(self._layout, total, slice(1))

    def add_up(self, be: Backend, exps: Cts, masks: Cts) -> Cts:
        """Row sums stored for the inverse, everywhere. One level. masks: first keep[token], not read after
        rounds."""
        specs = self.plan.specs
        return self.sums.stored(be, exps, None if specs.rounds else masks, specs.inverse)

    def project(self, be: Backend, x: Cts, exps: Cts, inverse: Cts, first: Cts, masks: Cts) -> Cts:
        """(Attention output + first) / exit, centred or not. 3 levels below x, exps and inverse; first: of
        the residual."""
        weighted = exps[0] if self.plan.specs.rounds else be.mul(exps[0], masks[0])
        values = [be.mul(v, inverse[0]) for v in self.value.apply(be, x)]
        return self.end(be, [be.mul(v, weighted) for v in values], first)


class DiagonalLowering(OneTextLowering[Features]):
    """The blocks of one text on diagonals. graph: of the model, whose tokens are
    the columns of all matrices.

    Raises ShapeError for sizes that the packing does not admit, PlanError for attentions of several kinds.
    """

    packing = "multidiagonal"

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> None:
        layout = Features.hidden(shape.slots, shape.tokens, *heads_of(graph, self.packing))
        super().__init__(graph, weights, specs, shape, linear_of(layout))

    def request(self) -> Request:
        """The layout of the request. Where an attention has all tokens as queries, the plain mask is followed
        by masks in the layout of the scores."""
        layout, tokens = self._layout, self._tokens

        masks = partial(masks_of, layout, scores=self._has_queries(tokens))
        hidden = tensor_of(HIDDEN, (tokens, layout.size), self._slots, layout.pack)
        return self._request({HIDDEN: hidden, MASK: tensor_of(MASK, (tokens,), self._slots, masks)})

    def _mean_answer(self, x: Tensor, dense: WeightBias | None, name: str) -> tuple[Operation, Answering]:
        """A mean becomes a vector before it is mapped."""
        return self._averaged(x, name), self._first_answer(x, dense)

    def _averaged(self, x: Tensor, name: str) -> Operation:
        """Leaves a vector: two levels. The map, a vector for every feature, is made when it is needed."""
        total = cache(partial(_same, self._layout, list(self._layout.index)))

        def average(be: Backend, cts: Cts, masks: Cts) -> Cts:
            return total().apply(be, [be.mul(ct, masks[0]) for ct in cts])

        return Operation.of(name, (x.live, MASK), name, average)

    def _all_tokens(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x, residual = block.name, block.x.live, block.residual.live
        attention = Attention(plan, self._layout)
        scores, context, inverse = (f"{name}.{part}" for part in ("scores", "context", "inverse"))
        softmax, mixed = softmax_operations(name, plan.specs, attention.sums, attention.visible)
        reads = (residual, context, inverse)
        normed, roots = plan.roots(name, (x,), attention.squares)
        return [
            *normed,
            Operation.of(scores, (x, *roots), scores, attention.scores),
            *softmax,
            Operation.of(f"{name}.mix", (x, mixed, MASK), (context, f"{name}.sums"), attention.mix),
            inversion(name, plan),
            Operation.of(f"{name}.project", reads, target.live, attention.project),
        ]

    def _first_token(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x, attention = block.name, block.x.live, FirstTokenAttention(plan, self._layout)
        softmax, mixed = softmax_operations(name, plan.specs, attention.sums, attention.visible)
        operations, back = attention.begin(name, x, block.residual.live)
        reads = (x, mixed, f"{name}.inverse", back, MASK)
        return [
            *operations,
            *softmax,
            Operation.of(f"{name}.sums", (mixed, MASK), f"{name}.sums", attention.add_up),
            inversion(name, plan),
            Operation.of(f"{name}.project", reads, target.live, attention.project),
        ]


def inversion(name: str, plan: AttentionPlan) -> Operation:
    """`NAME.sums` -> `NAME.inverse`: 1 / sums / its largest value. Levels: the inverse's."""
    spec = plan.specs.inverse
    invert = partial(real, spec=spec, output_scale=1.0 / output_bound(spec))
    return Operation.of(f"{name}.invert", (f"{name}.sums",), f"{name}.inverse", invert)
