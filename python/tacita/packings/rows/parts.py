"""The blocks of one text as operations: rows of features, and vectors once only the first token is left.

The request is `hidden`, `mask` (1/length at real tokens, in the layouts that attention asks for) and, for a
mean, `average`. Where only one row of an attention is asked for, it and all that follows runs on one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.blocks.base import Attention as AttentionNode
from tacita.blocks.base import Dense
from tacita.blocks.base import FeedForward as FeedForwardNode
from tacita.blocks.base import Norm as NormNode
from tacita.blocks.graph import INPUT, Graph
from tacita.blocks.weights import Weights
from tacita.errors import PlanError
from tacita.packings.arrays import Array
from tacita.packings.base import Block, Held, Operation, Probe, Readers, Target, refuse_node
from tacita.packings.one_text import OneTextResponse
from tacita.packings.rows.answer import mean, row_features, row_logits
from tacita.packings.rows.attention import Attention, AttentionSpecs
from tacita.packings.rows.feed_forward import FeedForward
from tacita.packings.rows.first_token import FirstTokenAttention, select_token
from tacita.packings.rows.heads.windows import head_windows
from tacita.packings.rows.layout import FeatureLayout, RowsShape, can_carry, restore_copies
from tacita.packings.rows.linear import residual as residual_of
from tacita.packings.rows.norm import Norm
from tacita.packings.rows.request import HIDDEN, MASK, MEAN, RowsRequest
from tacita.packings.rows.response import RowsResponse
from tacita.packings.specs import CircuitSpecs
from tacita.packings.vector.answer import Answering, vector_features, vector_logits
from tacita.packings.vector.feed_forward import VectorForward
from tacita.packings.vector.layout import VectorLayout
from tacita.packings.vector.norm import VectorNorm, exact_bound, without_mean
from tacita.packings.vector.operations import ANSWER, answer_operation, function_operations, norm_operations
from tacita.packings.vector.pooler import Pooler
from tacita.packings.weights import AttentionWeights
from tacita.slots.base import Backend, Ct
from tacita.slots.stage import Live


@dataclass(frozen=True)
class Form:
    """bound: stored = value / bound. vector: the first token alone. carried: token 0 in place of the
    copies."""

    bound: float
    vector: bool = False
    carried: bool = False


class RowParts:
    """See `packings.base.Parts`. graph: of the model, at the shape's tokens.

    Raises ShapeError for sizes that rows do not admit, PlanError for attentions of several kinds.
    """

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, shape: RowsShape) -> None:
        nodes = [step.node for step in graph.steps if isinstance(step.node, AttentionNode)]
        if len(sizes := {(a.heads, a.head_size) for a in nodes}) != 1:
            raise PlanError(
                f"rows of attentions with (heads, head size) {sorted(sizes)}", hint="one kind is needed"
            )
        (heads, head_size), size = sizes.pop(), nodes[0].query.inputs
        self._graph, self._weights, self._specs, self._shape = graph, weights, specs, shape
        self._layout = FeatureLayout.dense(shape, size, copied=True)
        self._vector = VectorLayout(shape.slots, size)
        self._heads, self._windows = (heads, head_size), head_windows(shape, heads, head_size)
        self._answering: Answering | None = None
        self._probes: dict[str, Probe] = {}

    @property
    def fixed(self) -> frozenset[str]:
        """The masks."""
        return frozenset({MASK, MEAN})

    def entry(self) -> Held[Form]:
        """See the contract."""
        return Held(HIDDEN, self._shape.tokens, Form(self._specs.entry, carried=self._entry_carried()))

    def request(self) -> RowsRequest:
        """See the contract."""
        asked = {step.output.shape[0] for step in self._graph.steps if step.op == "attention"}
        averaged = any(step.op == "mean" for step in self._graph.steps)
        return RowsRequest(
            self._shape.slots,
            self._shape.tokens,
            self._layout.size,
            *self._heads,
            self._specs.entry,
            all_tokens=self._shape.tokens in asked,
            first_token=1 in asked,
            carried=self._entry_carried(),
            mean=averaged,
        )

    def response(self) -> OneTextResponse:
        """See the contract."""
        assert self._answering is not None
        return self._answering.response

    def probes(self) -> Mapping[str, Probe]:
        """See the contract."""
        return self._probes

    def block(self, block: Block[Form], target: Target) -> list[Operation]:
        """See the contract. A sum that is stored gets its copies back."""
        if isinstance(block.node, FeedForwardNode):
            operations = self._feed_forward(block, block.node, target)
        elif block.rows == self._shape.tokens:
            operations = self._attention(block, block.node, target)
        elif block.rows == 1:
            operations = self._first_token(block, block.node, target)
        else:
            raise refuse_node("rows", block.name, f"{block.rows} of {self._shape.tokens} rows")
        return operations

    def stored(self, target: Target, block: Block[Form]) -> Held[Form]:
        """See the contract."""
        return Held(target.live, block.rows, Form(target.bound, vector=self._on_vector(block)))

    def centre(self, x: Held[Form], norm: str) -> list[Operation]:
        """By rotations: one level, two where the features fill the window or several ciphertexts."""
        target, vector = f"{norm}.centred", x.form.vector
        factor = x.form.bound / self._exit(norm, vector=vector)

        def run(be: Backend, live: Live) -> Live:
            if vector:
                return {target: (without_mean(be, live[x.live][0], self._vector, factor),)}
            return {target: residual_of(be, live[x.live], self._layout, factor)}

        return [Operation(f"{norm}.centre", (x.live,), run)]

    def norm(self, name: str, n: NormNode, rows: int, readers: Readers) -> tuple[list[Operation], Held[Form]]:
        """Gamma and beta are applied here, with the copies: both are products by a vector already."""
        specs, vector = self._specs.norm(name), rows == 1
        carried = readers.first_row and can_carry(self._layout)
        fields = (
            specs.rsqrt,
            n.epsilon,
            *self._weights.affine(n.name),
            self._exit(name, vector=vector),
            specs.result,
        )
        norm: Norm | VectorNorm
        norm = VectorNorm(self._vector, *fields) if vector else Norm(self._layout, *fields, carried)
        unpack: Unpack = (lambda slots: self._vector.unpack(slots[0])) if vector else self._layout.unpack
        self._probes[name] = Probe(name, lambda slots: _values(unpack, specs.result, slots), f"{name}.result")
        form = Form(specs.result, vector=vector, carried=carried)
        return norm_operations(norm, name, check=readers.last), Held(name, rows, form)

    def function(
        self, x: Held[Form], dense: Dense, name: str, kind: str
    ) -> tuple[list[Operation], Held[Form]]:
        """On the vector, whatever the function."""
        if not x.form.vector:
            raise refuse_node("rows", name, "one row of a tensor that is not a vector")
        spec = self._specs.function(name).function
        pooler = Pooler.build(*self._weights.dense(dense), self._vector, x.form.bound, spec)
        return function_operations(pooler, name, x.live), Held(name, 1, Form(pooler.exit, vector=True))

    def answer(self, x: Held[Form], dense: Dense | None, averaged: str) -> list[Operation]:
        """See the contract."""
        answering = self._answering = self._answered(x, dense, averaged)
        pooled = averaged or x.live

        def average(be: Backend, live: Live) -> Live:
            return {averaged: mean(be, live[x.live], live[MEAN][0], self._layout)}

        operations = [Operation(averaged, (x.live,), average)] if averaged else []
        return [*operations, answer_operation(answering, pooled)]

    def _answered(self, x: Held[Form], dense: Dense | None, averaged: str) -> Answering:
        bound, answer = x.form.bound, self._specs.answer
        if averaged:
            if dense is None:
                return row_features(self._layout, bound)
            return row_logits(*self._weights.dense(dense), self._layout, bound, answer)
        if not x.form.vector:
            raise refuse_node("rows", ANSWER, "one row of a tensor that is not a vector")
        if dense is None:
            return vector_features(RowsResponse, self._vector, bound)
        return vector_logits(RowsResponse, *self._weights.dense(dense), self._vector, bound, answer)

    def _attention(self, block: Block[Form], a: AttentionNode, target: Target) -> list[Operation]:
        """Every token."""
        name, x, residual = block.name, block.x.live, block.residual.live
        weights, specs = AttentionWeights.of(self._weights, a), self._attention_specs(block, target)
        attention = Attention.build(weights, self._layout, self._windows, specs)
        scores, exponentials, context, sums = (
            f"{name}.{p}" for p in ("scores", "exponentials", "context", "sums")
        )

        def score(be: Backend, live: Live) -> Live:
            return {scores: attention.scores(be, live[x])}

        def exponentiate(be: Backend, live: Live) -> Live:
            return {exponentials: attention.exponentials(be, live[scores])}

        def mix(be: Backend, live: Live) -> Live:
            mixed, apart = attention.mix(be, live[x], live[exponentials], live[MASK])
            return {context: mixed} | ({sums: apart} if apart else {})

        def project(be: Backend, live: Live) -> Live:
            found = attention.project(be, live[residual], live[context], live.get(sums, ()))
            return {target.live: self._with_copies(be, found, target)}

        return [
            Operation(f"{name}.scores", (x,), score),
            Operation(f"{name}.exp", (scores,), exponentiate),
            Operation(f"{name}.mix", (x, exponentials), mix),
            Operation(f"{name}.project", (residual, context, sums), project),
        ]

    def _first_token(self, block: Block[Form], a: AttentionNode, target: Target) -> list[Operation]:
        """One query; the result is a vector. Takes the last mask ciphertext, which is the same in every
        copy."""
        name, x, residual = block.name, block.x.live, block.residual.live
        weights, specs = AttentionWeights.of(self._weights, a), self._attention_specs(block, target)
        carried = block.x.form.carried
        attention = FirstTokenAttention.build(weights, self._layout, self._windows, specs, carried=carried)
        parts = ("first", "scores", "exponentials", "context", "sums", "attended")
        first, scores, exponentials, context, sums, attended = (f"{name}.{part}" for part in parts)
        back = first if residual == x else f"{name}.residual"

        def select(be: Backend, live: Live) -> Live:
            found = {first: (attention.select(be, live[x]),)}
            if back == first:
                return found
            return found | {back: (select_token(be, live[residual], self._layout, self._vector),)}

        def score(be: Backend, live: Live) -> Live:
            return {scores: attention.scores(be, live[x], live[first][0])}

        def exponentiate(be: Backend, live: Live) -> Live:
            return {exponentials: attention.exponentials(be, live[scores])}

        def mix(be: Backend, live: Live) -> Live:
            found = attention.mix(be, live[x], live[exponentials], live[MASK][-1])
            return {context: found[0], sums: found[1]}

        def attend(be: Backend, live: Live) -> Live:
            return {attended: attention.attend(be, live[context], live[sums])}

        def project(be: Backend, live: Live) -> Live:
            return {target.live: (attention.project(be, live[back][0], live[attended]),)}

        return [
            Operation(f"{name}.select", (x, residual), select),
            Operation(f"{name}.scores", (x, first), score),
            Operation(f"{name}.exp", (scores,), exponentiate),
            Operation(f"{name}.mix", (x, exponentials), mix),
            Operation(f"{name}.attend", (context, sums), attend),
            Operation(f"{name}.project", (back, attended), project),
        ]

    def _feed_forward(self, block: Block[Form], f: FeedForwardNode, target: Target) -> list[Operation]:
        name, y, residual = block.name, block.x.live, block.residual.live
        vector, bound = block.x.form.vector, block.x.form.bound
        activation, exit_ = self._specs.function(name).function, self._target_exit(target, vector=vector)
        weights = (*self._weights.dense(f.wide), *self._weights.dense(f.narrow))
        how: dict[str, Any] = {"residual": block.residual.form.bound, "centred": bool(target.norm)}
        inner, active = f"{name}.inner", f"{name}.active"
        forward: FeedForward | VectorForward
        if vector:
            forward = VectorForward.build(weights, self._vector, activation, bound, exit_, **how)
        else:
            forward = FeedForward.build(weights, self._layout, activation, bound, exit_, **how)

        def expand(be: Backend, live: Live) -> Live:
            return {inner: forward.expand(be, live[y])}

        def activate(be: Backend, live: Live) -> Live:
            return {active: forward.activate(be, live[inner])}

        def contract(be: Backend, live: Live) -> Live:
            found = forward.contract(be, live[residual], live[active])
            return {target.live: found if vector else self._with_copies(be, found, target)}

        return [
            Operation(f"{name}.expand", (y,), expand),
            Operation(f"{name}.activate", (inner,), activate),
            Operation(f"{name}.contract", (residual, active), contract),
        ]

    def _attention_specs(self, block: Block[Form], target: Target) -> AttentionSpecs:
        s, exit_ = self._specs.attention(block.name), self._target_exit(target, vector=block.rows == 1)
        return AttentionSpecs(
            s.exp,
            s.inverse,
            s.context,
            s.attended,
            block.x.form.bound,
            exit_,
            residual=block.residual.form.bound,
            centred=bool(target.norm),
        )

    def _with_copies(self, be: Backend, found: tuple[Ct, ...], target: Target) -> tuple[Ct, ...]:
        """A norm restores the copies itself; a sum that is stored has them."""
        return found if target.norm else restore_copies(be, found, self._layout)

    def _target_exit(self, target: Target, *, vector: bool) -> float:
        return self._exit(target.norm, vector=vector) if target.norm else target.bound

    def _on_vector(self, block: Block[Form]) -> bool:
        return block.x.form.vector or block.rows == 1

    def _exit(self, norm: str, *, vector: bool) -> float:
        """What the centred input of a norm is divided by."""
        s = self._specs.norm(norm)
        return exact_bound(s.centred, s.rsqrt, self._vector.size) if vector else s.centred

    def _entry_carried(self) -> bool:
        """Whether nobody but an attention of one query reads the input, and a window has room for its
        token."""
        readers = [step for step in self._graph.steps if any(value.step == INPUT for value in step.inputs)]
        asks = [step for step in readers if step.op == "attention"]
        first = all(step.op == "take" or step in asks for step in readers)
        one = bool(asks) and all(step.output.shape[0] == 1 for step in asks)
        return first and one and can_carry(self._layout)


Unpack = Callable[[Sequence[Array]], Array]


def _values(unpack: Unpack, bound: float, slots: Sequence[Array]) -> Array:
    """Decoded ciphertexts -> (1, tokens or 1, features)."""
    return np.atleast_2d(np.real(unpack(slots)))[None] * bound
