"""The blocks of one text as operations on rows of features; what is not attention is that of `shared`.

The request is `hidden`, `mask` (1/length at real tokens, in the layouts that attention asks for) and, for a
mean, `average`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from tacita.blocks import base as blocks
from tacita.blocks.graph import INPUT, Graph
from tacita.blocks.shapes import NORMED
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array
from tacita.layouts.numbered import tensor_of
from tacita.layouts.registry import Shape
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.rows import FeatureLayout, RowsShape, can_carry, carry
from tacita.layouts.runs import HIDDEN, MASK, Request
from tacita.layouts.windows import head_windows, pack_masks
from tacita.packings.base import Block, Form, Kept, Operation, Target, Tensor, attentions, first_row, heads_of
from tacita.packings.encoding import Encoding, WeightBias
from tacita.packings.operations import Answering
from tacita.packings.rows.attention import Attention
from tacita.packings.rows.division import mixed_exponentials
from tacita.packings.rows.first_token import (
    KEYS,
    VALUES,
    FirstTokenAttention,
    StepAttention,
    above,
    select_token,
)
from tacita.packings.rows.linear import linear_of
from tacita.packings.shared.answer import block_answering
from tacita.packings.shared.lowering import OneTextLowering
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionPlan
from tacita.slots.base import Backend, Cts
from tacita.slots.stage import Live

Values = Callable[[Backend, Live, Cts], tuple[Cts, Live]]  # exponentials -> values, and what is left behind
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
        layout, bounds = self._layout, (x.form.encoding.bound, self._specs.answer)
        sizes = self._slots, layout.shape.window, layout.size
        answering = block_answering(dense, list(layout.home), sizes, bounds, repeated=False)
        return Operation.of(name, (x.live, MEAN), name, self._mean), answering

    def _mean(self, be: Backend, x: Cts, weights: Cts) -> Cts:
        """Adds up tokens times weights, in every token. One level, log2(tokens) rotations a ciphertext."""
        shape = self._layout.shape
        return tuple(rotate_sum(be, be.mul(ct, weights[0]), shape.tokens, shape.window) for ct in x)

    def _averaged(self, x: Tensor, name: str) -> Operation:
        """Two levels: it is in every token, of which one is taken."""

        def average(be: Backend, cts: Cts, weights: Cts) -> Cts:
            return (select_token(be, self._mean(be, cts, weights), self._layout, self._vector),)

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

        def values(be: Backend, live: Live, exps: Cts) -> tuple[Cts, Live]:
            return attention.value.apply(be, above(be, live[block.x.live], exps)), {}

        return [*operations, *self._attended(block, target, attention, back, (block.x.live,), values)]

    def _attended(
        self,
        block: Block,
        target: Target,
        attention: FirstTokenAttention,
        back: str,
        reads: tuple[str, ...],
        values: Values,
    ) -> list[Operation]:
        """What follows the scores of one query. back: the tensor of the residual's first token. reads: what
        values are made of."""
        name, plan = block.name, attention.plan
        context, sums, attended = (f"{name}.{part}" for part in ("context", "sums", "attended"))
        stages, read, evaluate = mixed_exponentials(
            name, plan.specs, attention.early, attention.visible, attention.row_sums
        )

        def mix(be: Backend, live: Live) -> Live:
            exps = evaluate(be, live)
            mixed, left = values(be, live, exps)
            results = attention.mix(be, mixed, exps, live[MASK])
            return {context: results[0], sums: results[1], **left}

        return [
            *stages,
            Operation(f"{name}.mix", (*reads, read), mix),
            Operation.of(f"{name}.attend", (context, sums), attended, attention.attend),
            Operation.of(f"{name}.project", (attended, back), target.live, attention.end),
        ]

    def _packed_entry(self) -> bool:
        """Whether an attention of one query alone reads the input, and a window has room for its token."""
        readers = [step for step in self._graph.steps if any(value.step == INPUT for value in step.inputs)]
        return self._packs_first and first_row(readers)


# The blocks of a decoder's step as operations: one new row, behind rows that were kept of earlier tokens.
#
# Keys and values are kept of every layer, in rows, the last token first:
#
#     layer i:  key, value and query of the new row, by one map              1 level below it
#               kept rows turned by one row, the new one in the free place   2 levels
#               attention of one query over them, as a last layer has it (`rows.first_token`)
#               the rest of the layer on a vector
#
# Rows in reverse know distances alone, so one circuit serves all steps. Keys are turned in the stage of the
# scores and values in that which mixes them, each at the level at which it is left for the next step and
# taken there. So nothing drains, however many steps follow.


class StepLowering(RowLowering):
    """Rows, of which one is new. Its tensors are vectors, and attention reads the kept rows besides.

    graph: of the model at one token; shape: of the whole text.
    """

    options: ClassVar[frozenset[str]] = RowLowering.options - {NORMED}

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> None:
        super().__init__(graph, weights, specs, shape)
        nodes = (step.name for step in graph.steps if step.op == "attention")
        self.kept = tuple(one for node in nodes for one in self._kept_of(node))

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
        scores, new, (keys, values) = f"{name}.scores", f"{name}.new", self._kept_of(name)
        attention = StepAttention(plan, self._layout, self._windows)

        def score(be: Backend, live: Live) -> Live:
            row = attention.new(be, live[x])
            rows = attention.later(be, row, live[keys.before], KEYS)
            return {scores: attention.scores_of(be, row, rows, live[x]), new: row, keys.after: rows}

        def valued(be: Backend, live: Live, exps: Cts) -> tuple[Cts, Live]:
            rows = attention.later(be, above(be, live[new], exps), live[values.before], VALUES)
            return attention.biased(be, rows, VALUES), {values.after: rows}

        ends, reads = (block, target, attention, block.residual.live), (new, values.before)
        return [Operation(scores, (x, keys.before), score), *self._attended(*ends, reads, valued)]

    def _kept_of(self, node: str) -> tuple[Kept, Kept]:
        """The keys and the values that an attention reads, a ciphertext a window."""
        sides, count = (f"{node}.keys", f"{node}.values"), len(self._windows)
        keys, values = (Kept(f"{side}.rows", f"{side}.later", count) for side in sides)
        return keys, values
