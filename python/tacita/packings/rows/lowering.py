"""The blocks of one text as operations on rows of features; what is not attention is that of `one_text`.

The request is `hidden`, `mask` (1/length at real tokens, in the layouts that attention asks for) and, for a
mean, `average`.
"""

from __future__ import annotations

import numpy as np

from tacita.blocks.graph import INPUT, Graph
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array
from tacita.layouts.numbered import tensor_of
from tacita.layouts.rows import FeatureLayout, RowsShape, can_carry, carry
from tacita.layouts.runs import HIDDEN, MASK, Request
from tacita.layouts.windows import head_windows, pack_masks
from tacita.packings.base import Block, Operation, Target, Tensor, attentions
from tacita.packings.encoding import Affine, Encoding
from tacita.packings.operations import Answering, selected
from tacita.packings.rows.attention import Attention
from tacita.packings.rows.division import Exponentials
from tacita.packings.rows.first_token import FirstTokenAttention, select_token
from tacita.packings.rows.linear import Norm, linear_of, mean, row_features, row_logits
from tacita.packings.shared.lowering import Form, NormFields, OneTextLowering
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionPlan
from tacita.slots.base import Backend, Ct
from tacita.slots.stage import Live

Cts = tuple[Ct, ...]
MEAN = "average"  # the mask for a mean, of which a node of a model may have the name


class RowLowering(OneTextLowering[FeatureLayout]):
    """The blocks of one text (`packings.base.Lowering`) in rows. graph: of the model, at the shape's tokens.

    Raises ShapeError for sizes that rows do not admit, PlanError for attentions of several kinds.
    """

    packing = "rows"

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, shape: RowsShape) -> None:
        size = attentions(graph)[0].query.inputs
        layout = FeatureLayout.dense(shape, size, copied=True)
        sizes, packs = (shape.slots, shape.tokens), can_carry(layout)
        super().__init__(graph, weights, specs, sizes, linear_of(layout), packs_first=packs)
        self._windows = head_windows(shape, *self._heads)

    @property
    def fixed(self) -> frozenset[str]:
        """The masks."""
        return frozenset({MASK, MEAN})

    def entry(self) -> Tensor[Form]:
        """The hidden states of the request, in rows."""
        return Tensor(
            HIDDEN, self._tokens, Form(Encoding(self._specs.entry), packed_first=self._packed_entry())
        )

    def request(self) -> Request:
        """The layout of the request. Where an attention has a single query, the last mask is the plain
        one."""
        layout, packed, rows = self._layout, self._packed_entry(), (self._tokens,)

        def states(x: Array) -> list[Array]:
            return [carry(layout, x)] if packed else layout.pack(x)

        def masks(keep: Array) -> list[Array]:
            windows = pack_masks(self._windows, keep) if self._asked(self._tokens) else []
            return [*windows, *(self._plain(keep) if self._asked(1) else [])]

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

    def _token_norm(self, fields: NormFields, *, packed_first: bool) -> Norm:
        """Makes a norm that restores the copies: gamma and beta are products by a vector already."""
        return Norm(*fields, packed_first=packed_first)

    def _mean_answer(self, x: Tensor[Form], dense: Affine | None, name: str) -> tuple[Operation, Answering]:
        def average(be: Backend, cts: Cts, weights: Cts) -> Cts:
            return mean(be, cts, weights[0], self._layout)

        operation, bound = Operation.of(name, (x.live, MEAN), name, average), x.form.encoding.bound
        if dense is None:
            return operation, row_features(self._layout, bound)
        return operation, row_logits(*dense, self._layout, bound, self._specs.answer)

    def _averaged(self, x: Tensor[Form], name: str) -> Operation:
        """Two levels: it is in every token, of which one is taken."""

        def average(be: Backend, cts: Cts, weights: Cts) -> Cts:
            pooled = mean(be, cts, weights[0], self._layout)
            return (select_token(be, pooled, self._layout, self._vector),)

        return Operation.of(name, (x.live, MEAN), name, average)

    def _all_tokens(self, block: Block[Form], target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x, residual = block.name, block.x.live, block.residual.live
        attention = Attention.build(plan, self._layout, self._windows)
        scores, context, sums = (f"{name}.{part}" for part in ("scores", "context", "sums"))

        exponential = Exponentials.of(name, plan.specs.exp, attention.early, attention.visible)

        def mix(be: Backend, live: Live) -> Live:
            mixed, apart = attention.mix(be, live[x], exponential.evaluate(be, live), live[MASK])
            return {context: mixed} | ({sums: apart} if apart else {})

        def project(be: Backend, live: Live) -> Live:
            mixed, apart = live[context], live.get(sums, ())
            return {target.live: attention.project(be, live[residual], mixed, apart)}

        normed, roots = plan.roots(name, (x,), attention.squares)
        return [
            *normed,
            Operation.of(f"{name}.scores", (x, *roots), scores, attention.scores),
            *exponential.stages,
            Operation(f"{name}.mix", (x, exponential.read), mix),
            Operation(f"{name}.project", (residual, context, sums), project),
        ]

    def _first_token(self, block: Block[Form], target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x, packed = block.name, block.x.live, block.x.form.packed_first
        attention = FirstTokenAttention(plan, self._layout, self._windows, packed_first=packed)
        parts = ("scores", "context", "sums", "attended")
        scores, context, sums, attended = (f"{name}.{part}" for part in parts)
        exponential = Exponentials.of(name, plan.specs.exp, attention.early, attention.visible)

        def mix(be: Backend, live: Live) -> Live:
            results = attention.mix(be, live[x], exponential.evaluate(be, live), live[MASK])
            return dict(zip((context, sums), results, strict=True))

        def select(be: Backend, cts: Cts) -> Cts:
            return (select_token(be, cts, self._layout, self._vector),)

        chosen = selected(name, x, block.residual.live, attention.select, select)
        normed, roots = plan.roots(name, (x, chosen.first), attention.squares)
        return [
            chosen.operation,
            *normed,
            Operation.of(f"{name}.scores", (x, chosen.first, *roots), scores, attention.scores),
            *exponential.stages,
            Operation(f"{name}.mix", (x, exponential.read), mix),
            Operation.of(f"{name}.attend", (context, sums), attended, attention.attend),
            Operation.of(f"{name}.project", (chosen.back, attended), target.live, attention.project),
        ]

    def _packed_entry(self) -> bool:
        """Whether nobody but an attention of one query reads the input, and a window has room for its
        token."""
        readers = [step for step in self._graph.steps if any(value.step == INPUT for value in step.inputs)]
        asks = [step for step in readers if step.op == "attention"]
        first = all(step.op == "take" or step in asks for step in readers)
        one = bool(asks) and all(step.output.shape[0] == 1 for step in asks)
        return first and one and self._packs_first
