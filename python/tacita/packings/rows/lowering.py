"""The blocks of one text as operations on rows of features; what is not attention is that of `shared`.

The request is `hidden`, `mask` (1/length at real tokens, in the layouts that attention asks for) and, for a
mean, `average`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from tacita.blocks import base as blocks
from tacita.blocks.graph import INPUT, Graph
from tacita.blocks.shapes import NORMED
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array, ceil_power
from tacita.layouts.numbered import tensor_of
from tacita.layouts.registry import Shape
from tacita.layouts.rows import FeatureLayout, RowsShape, can_carry, carry
from tacita.layouts.runs import HIDDEN, MASK, Request
from tacita.layouts.windows import head_windows, pack_masks
from tacita.packings.base import Block, Form, Kept, Operation, Target, Tensor, attentions, heads_of
from tacita.packings.encoding import Encoding, WeightBias
from tacita.packings.operations import Answering
from tacita.packings.rows.attention import Attention
from tacita.packings.rows.division import mixed_exponentials
from tacita.packings.rows.first_token import FirstTokenAttention, select_token
from tacita.packings.rows.linear import linear_of, mean
from tacita.packings.shared.answer import block_answering
from tacita.packings.shared.lowering import OneTextLowering
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionPlan
from tacita.slots.base import Backend, Ct
from tacita.slots.stage import Live

Cts = tuple[Ct, ...]
MEAN = "average"  # the mask for a mean, of which a node of a model may have the name


class RowLowering(OneTextLowering[FeatureLayout]):
    """The blocks of one text in rows. graph: of the model, at the shape's tokens.

    Raises ShapeError for sizes that rows do not admit, PlanError for attentions of several kinds.
    """

    packing = "rows"

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> None:
        heads, rows = heads_of(graph, self.packing, even=False), RowsShape(shape.slots, shape.tokens)
        layout = FeatureLayout.dense(rows, attentions(graph)[0].query.inputs, copied=True)
        super().__init__(graph, weights, specs, shape, linear_of(layout), packs_first=can_carry(layout))
        self._windows = head_windows(rows, *heads)

    @property
    def fixed(self) -> frozenset[str]:
        """The masks."""
        return frozenset({MASK, MEAN})

    def entry(self) -> Tensor:
        """The hidden states of the request, in rows."""
        return Tensor(
            HIDDEN, self._tokens, Form(Encoding(self._specs.entry), packed_first=self._packed_entry())
        )

    def request(self) -> Request:
        """The layout of the request. With an attention of one query, the last mask is the plain one."""
        layout, packed, rows = self._layout, self._packed_entry(), (self._tokens,)

        def states(x: Array) -> list[Array]:
            return [carry(layout, x)] if packed else layout.pack(x)

        def masks(keep: Array) -> list[Array]:
            windows = pack_masks(self._windows, keep) if self._has_queries(self._tokens) else []
            return [*windows, *(self._plain(keep) if self._has_queries(1) else [])]

        window, sizes = layout.shape.window, (self._tokens, layout.size)
        tensors = {
            HIDDEN: tensor_of(HIDDEN, sizes, self._slots, states, window=window),
            MASK: tensor_of(MASK, rows, self._slots, masks),
        }
        if any(step.op == "mean" for step in self._graph.steps):
            tensors[MEAN] = tensor_of(MASK, rows, self._slots, self._plain)
        return self._request(tensors)

    def _plain(self, keep: Array) -> list[Array]:
        return [np.repeat(keep, self._layout.shape.window)]

    def _norm(self, name: str, n: blocks.Norm, form: Form) -> tuple[Any, Encoding]:
        norm: Any
        norm, encoding = super()._norm(name, n, form)
        packed = form.packed_first and not form.first  # one row is a vector, which has no copies
        return replace(norm, packed_first=True) if packed else norm, encoding

    def _mean_answer(self, x: Tensor, dense: WeightBias | None, name: str) -> tuple[Operation, Answering]:
        def average(be: Backend, cts: Cts, weights: Cts) -> Cts:
            return mean(be, cts, weights[0], self._layout)

        layout, bounds = self._layout, (x.form.encoding.bound, self._specs.answer)
        sizes = self._slots, layout.shape.window, layout.size
        answering = block_answering(dense, list(layout.home), sizes, bounds, repeated=False)
        return Operation.of(name, (x.live, MEAN), name, average), answering

    def _averaged(self, x: Tensor, name: str) -> Operation:
        """Two levels: it is in every token, of which one is taken."""

        def average(be: Backend, cts: Cts, weights: Cts) -> Cts:
            pooled = mean(be, cts, weights[0], self._layout)
            return (select_token(be, pooled, self._layout, self._vector),)

        return Operation.of(name, (x.live, MEAN), name, average)

    def _all_tokens(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x, residual = block.name, block.x.live, block.residual.live
        attention = Attention(plan, self._layout, self._windows)
        scores, context, sums = (f"{name}.{part}" for part in ("scores", "context", "sums"))

        stages, read, evaluate = mixed_exponentials(
            name, plan.specs, attention.early, attention.visible, attention.row_sums
        )

        def mix(be: Backend, live: Live) -> Live:
            mixed, apart = attention.mix(be, live[x], evaluate(be, live), live[MASK])
            return {context: mixed} | ({sums: apart} if apart else {})

        def project(be: Backend, live: Live) -> Live:
            mixed, apart = live[context], live.get(sums, ())
            return {target.live: attention.project(be, live[residual], mixed, apart)}

        normed, roots = plan.roots(name, (x,), attention.squares)
        return [
            *normed,
            Operation.of(f"{name}.scores", (x, *roots), scores, attention.scores),
            *stages,
            Operation(f"{name}.mix", (x, read), mix),
            Operation(f"{name}.project", (residual, context, sums), project),
        ]

    def _first_token(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        packed = block.x.form.packed_first
        attention = FirstTokenAttention(plan, self._layout, self._windows, packed_first=packed)
        operations, back = attention.begin(block.name, block.x.live, block.residual.live)
        return [*operations, *self._attended(block, target, attention, back)]

    def _attended(
        self,
        block: Block,
        target: Target,
        attention: FirstTokenAttention,
        back: str,
        cache: Kept | None = None,
    ) -> list[Operation]:
        """What follows the scores of one query. back: the tensor of the residual's first token. cache: of the
        rows that are read in place of the block's input."""
        name, x, plan = block.name, block.x.live, attention.plan
        context, sums, attended = (f"{name}.{part}" for part in ("context", "sums", "attended"))
        stages, read, evaluate = mixed_exponentials(
            name, plan.specs, attention.early, attention.visible, attention.row_sums
        )

        def mix(be: Backend, live: Live) -> Live:
            rows = self._later(be, live, cache, x) if cache else live[x]
            results = attention.mix(be, rows, evaluate(be, live), live[MASK])
            left = {cache.after: _higher(be, rows, live[cache.after])} if cache else {}
            return {context: results[0], sums: results[1], **left}

        reads = (x, cache.before, read) if cache else (x, read)
        return [
            *stages,
            Operation(f"{name}.mix", reads, mix),
            Operation.of(f"{name}.attend", (context, sums), attended, attention.attend),
            Operation.of(f"{name}.project", (back, attended), target.live, attention.project),
        ]

    def _later(self, be: Backend, live: Live, cache: Kept, x: str) -> Cts:
        return later(be, live[cache.before], live[x][0], self._layout, self._slots)

    def _packed_entry(self) -> bool:
        """Whether nobody but an attention of one query reads the input, and a window has room for its
        token."""
        readers = [step for step in self._graph.steps if any(value.step == INPUT for value in step.inputs)]
        asks = [step for step in readers if step.op == "attention"]
        first = all(step.op == "take" or step in asks for step in readers)
        one = bool(asks) and all(step.output.shape[0] == 1 for step in asks)
        return first and one and self._packs_first


# The blocks of a decoder's step as operations: one new row, behind rows that were kept of earlier tokens.
#
# What an attention reads, the norm's result before it, is kept of every layer, in rows, the last token first:
#
#     layer i:  kept rows turned by one row, the new one in the free place     1 level below the new one
#               attention of one query over them, as a last layer has it (`rows.first_token`)
#               the rest of the layer on a vector
#
# Rows in reverse know distances alone, so one circuit serves all steps. Two stages of an attention take the
# turned rows, at levels of their own; the higher ones are left for the next step, at the level at which it
# takes them. So nothing drains, however many steps follow.


class StepLowering(RowLowering):
    """Rows, of which one is new. Its tensors are vectors, and attention reads the kept rows besides.

    graph: of the model at one token; shape: of the whole text.
    """

    options: ClassVar[frozenset[str]] = RowLowering.options - {NORMED}

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> None:
        super().__init__(graph, weights, specs, shape)
        nodes = (step.name for step in graph.steps if step.op == "attention")
        self.kept = tuple(kept_of(node, self._layout.count) for node in nodes)

    def entry(self) -> Tensor:
        """The hidden state of the new row, as a vector."""
        return Tensor(HIDDEN, 1, Form(Encoding(self._specs.entry), first=True))

    def request(self) -> Request:
        """The layout of the request: the newest row of a text as a vector, which is given whole and in
        reverse as in every packing, and the mask of all its rows."""

        def newest(x: Array) -> list[Array]:
            return [self._vector.pack(x[0])]

        hidden = tensor_of(HIDDEN, (self._tokens, self._layout.size), self._slots, newest)
        return self._request(
            {HIDDEN: hidden, MASK: tensor_of(MASK, (self._tokens,), self._slots, self._plain)}
        )

    def _first_token(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x = block.name, block.x.live
        cache, scores = kept_of(name, self._layout.count), f"{name}.scores"
        attention = FirstTokenAttention(plan, self._layout, self._windows)

        def score(be: Backend, live: Live) -> Live:
            rows = self._later(be, live, cache, x)
            return {scores: attention.scores(be, rows, live[x]), cache.after: rows}

        further = self._attended(block, target, attention, block.residual.live, cache)
        return [Operation(scores, (x, cache.before), score), *further]


def kept_of(node: str, count: int) -> Kept:
    """The rows that an attention reads, so many ciphertexts."""
    return Kept(f"{node}.rows", f"{node}.later", count)


def later(be: Backend, kept: Cts, new: Ct, layout: FeatureLayout, slots: int) -> Cts:
    """Kept rows and a new vector -> the rows of the next text: row t is row t - 1 of before, row 0 the
    vector. One level below the vector. What was the last row must have been zero. Cost: two rotations a
    ciphertext, more where it holds copies beside other ciphertexts."""
    window, period, shifted = layout.shape.window, ceil_power(layout.size), []
    for ct, features in zip(kept, layout.index, strict=True):
        place = np.arange(window)
        turns, parts = np.where(features >= 0, (features - place) % period, -1), list[Ct]()
        for turn in np.unique(turns[turns >= 0]).tolist():  # a copy may need one of its own
            first = np.zeros(slots)
            first[:window] = turns == turn
            parts.append(be.mul_vector(be.rotate(new, turn), first))
        placed = reduce(be.add, parts)
        rows = be.drop_to(ct, min(be.level(ct), be.level(placed)))
        shifted.append(be.add(be.rotate(rows, -window), placed))
    return tuple(shifted)


def _higher(be: Backend, one: Cts, other: Cts) -> Cts:
    """The rows at the higher level, of equal ones the other."""
    return one if be.level(one[0]) > be.level(other[0]) else other
