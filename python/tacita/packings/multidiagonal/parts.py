"""The blocks of one text as operations: diagonals of all heads, and vectors once only the first token is
left.

The request is `hidden` and `mask` (1/length at real tokens: by token, then in the layout of the scores).
Where only one row of an attention is asked for, it and all that follows runs on one vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacita.blocks.base import Attention as AttentionNode
from tacita.blocks.base import Dense
from tacita.blocks.base import FeedForward as FeedForwardNode
from tacita.blocks.base import Norm as NormNode
from tacita.blocks.graph import Graph
from tacita.blocks.weights import Weights
from tacita.errors import PlanError
from tacita.packings.arrays import Array
from tacita.packings.base import Block, Held, Operation, Probe, Readers, Target, refuse_node
from tacita.packings.multidiagonal.answer import Mean, answering
from tacita.packings.multidiagonal.attention import Attention, AttentionSpecs
from tacita.packings.multidiagonal.feed_forward import FeedForward
from tacita.packings.multidiagonal.first_token import FirstTokenAttention, selection
from tacita.packings.multidiagonal.layout import Features
from tacita.packings.multidiagonal.linear import residual as residual_of
from tacita.packings.multidiagonal.norm import Norm
from tacita.packings.multidiagonal.request import HIDDEN, MASK, DiagonalRequest
from tacita.packings.multidiagonal.row_sums import RowSums
from tacita.packings.one_text import OneTextResponse
from tacita.packings.specs import CircuitSpecs
from tacita.packings.vector.answer import Answering
from tacita.packings.vector.feed_forward import VectorForward
from tacita.packings.vector.layout import VectorLayout
from tacita.packings.vector.norm import VectorNorm, exact_bound, without_mean
from tacita.packings.vector.operations import (
    AnyForward,
    AnyNorm,
    answer_operation,
    forward_operations,
    function_operations,
    norm_operations,
)
from tacita.packings.vector.pooler import Pooler
from tacita.packings.weights import AttentionWeights
from tacita.slots.base import Backend
from tacita.slots.stage import Live

NAME = "multidiagonal"


@dataclass(frozen=True)
class Form:
    """bound: stored = value / bound. vector: the first token alone."""

    bound: float
    vector: bool = False


class DiagonalParts:
    """See `packings.base.Parts`. graph: of the model, whose tokens are the columns of all matrices.

    Raises ShapeError for sizes that the packing does not admit, PlanError for attentions of several kinds.
    """

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, slots: int, tokens: int) -> None:
        nodes = [step.node for step in graph.steps if isinstance(step.node, AttentionNode)]
        if len(sizes := {(a.heads, a.head_size) for a in nodes}) != 1:
            message = f"{NAME} of attentions with (heads, head size) {sorted(sizes)}"
            raise PlanError(message, hint="one kind is needed")
        self._graph, self._weights, self._specs = graph, weights, specs
        self._slots, self._tokens, self._heads = slots, tokens, sizes.pop()
        self._layout = Features.hidden(slots, tokens, *self._heads)
        self._vector = VectorLayout(slots, self._layout.size)
        self._answering: Answering | None = None
        self._probes: dict[str, Probe] = {}

    @property
    def fixed(self) -> frozenset[str]:
        """The masks."""
        return frozenset({MASK})

    def entry(self) -> Held[Form]:
        """See the contract."""
        return Held(HIDDEN, self._tokens, Form(self._specs.entry))

    def request(self) -> DiagonalRequest:
        """See the contract."""
        asked = {step.output.shape[0] for step in self._graph.steps if step.op == "attention"}
        sizes = (self._slots, self._tokens, self._layout.size, *self._heads)
        return DiagonalRequest(*sizes, self._specs.entry, all_tokens=self._tokens in asked)

    def response(self) -> OneTextResponse:
        """See the contract."""
        assert self._answering is not None
        return self._answering.response

    def probes(self) -> Mapping[str, Probe]:
        """See the contract."""
        return self._probes

    def block(self, block: Block[Form], target: Target) -> list[Operation]:
        """See the contract."""
        if isinstance(block.node, FeedForwardNode):
            return self._feed_forward(block, block.node, target)
        if block.rows == self._tokens:
            return self._attention(block, block.node, target)
        if block.rows == 1:
            return self._first_token(block, block.node, target)
        raise refuse_node(NAME, block.name, f"{block.rows} of {self._tokens} rows")

    def stored(self, target: Target, block: Block[Form]) -> Held[Form]:
        """See the contract."""
        return Held(
            target.live, block.rows, Form(target.bound, vector=block.x.form.vector or block.rows == 1)
        )

    def centre(self, x: Held[Form], norm: str) -> list[Operation]:
        """By rotations: one level."""
        target, vector = f"{norm}.centred", x.form.vector
        factor = x.form.bound / self._exit(norm, vector=vector)

        def run(be: Backend, live: Live) -> Live:
            if vector:
                return {target: (without_mean(be, live[x.live][0], self._vector, factor),)}
            return {target: residual_of(be, live[x.live], self._layout, factor, centred=True)}

        return [Operation(f"{norm}.centre", (x.live,), run)]

    def norm(self, name: str, n: NormNode, rows: int, readers: Readers) -> tuple[list[Operation], Held[Form]]:
        """Gamma and beta are applied here."""
        specs, vector = self._specs.norm(name), rows == 1
        fields = (
            specs.rsqrt,
            n.epsilon,
            *self._weights.affine(n.name),
            self._exit(name, vector=vector),
            specs.result,
        )
        norm: AnyNorm = VectorNorm(self._vector, *fields) if vector else Norm(self._layout, *fields)

        def read(slots: Sequence[Array]) -> Array:
            found = self._vector.unpack(slots[0])[None] if vector else self._layout.unpack(slots)
            return np.asarray(np.real(found)[None] * specs.result)

        self._probes[name] = Probe(name, read, f"{name}.result")
        return norm_operations(norm, name, check=readers.last), Held(name, rows, Form(specs.result, vector))

    def function(
        self, x: Held[Form], dense: Dense, name: str, kind: str
    ) -> tuple[list[Operation], Held[Form]]:
        """On the vector, whatever the function."""
        if not x.form.vector:
            raise refuse_node(NAME, name, "one row of a tensor that is not a vector")
        spec = self._specs.function(name).function
        pooler = Pooler.build(*self._weights.dense(dense), self._vector, x.form.bound, spec)
        return function_operations(pooler, name, x.live), Held(name, 1, Form(pooler.exit, vector=True))

    def answer(self, x: Held[Form], dense: Dense | None, averaged: str) -> list[Operation]:
        """See the contract. A mean becomes a vector before it is mapped."""
        if not averaged and not x.form.vector:
            raise refuse_node(NAME, "answer", "one row of a tensor that is not a vector")
        weights = self._weights.dense(dense) if dense else None
        self._answering = answering(weights, self._vector, x.form.bound, self._specs.answer)
        if not averaged:
            return [answer_operation(self._answering, x.live)]
        mean = Mean(self._layout)

        def average(be: Backend, live: Live) -> Live:
            return {averaged: mean.apply(be, live[x.live], live[MASK][0])}

        return [Operation(averaged, (x.live,), average), answer_operation(self._answering, averaged)]

    def _attention(self, block: Block[Form], a: AttentionNode, target: Target) -> list[Operation]:
        """Every token."""
        name, x, residual = block.name, block.x.live, block.residual.live
        specs = self._attention_specs(block, target)
        attention = Attention.build(AttentionWeights.of(self._weights, a), self._layout, specs)
        parts = ("scores", "exponentials", "context", "sums", "inverse")
        scores, exponentials, context, sums, inverse = (f"{name}.{part}" for part in parts)
        phase = _first_phase(name, attention.sums(specs.first) if specs.first else None, slice(1, None))
        mixed_by, divisors = phase.result or exponentials, attention.sums(specs.inverse)

        def score(be: Backend, live: Live) -> Live:
            return {scores: attention.scores(be, live[x])}

        def exponentiate(be: Backend, live: Live) -> Live:
            return {exponentials: attention.exponentials(be, live[scores])}

        def mix(be: Backend, live: Live) -> Live:
            mask, *masks = live[MASK]
            mixed, total = attention.mix(be, live[x], live[mixed_by], mask, tuple(masks))
            return {context: mixed, sums: (total,)}

        def invert(be: Backend, live: Live) -> Live:
            return {inverse: (divisors.invert(be, live[sums][0]),)}

        def project(be: Backend, live: Live) -> Live:
            return {target.live: attention.project(be, live[residual], live[context], live[inverse][0])}

        return [
            Operation(f"{name}.scores", (x,), score),
            Operation(f"{name}.exp", (scores,), exponentiate),
            *phase.operations,
            Operation(f"{name}.mix", (x, mixed_by), mix),
            Operation(f"{name}.invert", (sums,), invert),
            Operation(f"{name}.project", (residual, context, inverse), project),
        ]

    def _first_token(self, block: Block[Form], a: AttentionNode, target: Target) -> list[Operation]:
        """One query; the result is a vector."""
        name, x, residual = block.name, block.x.live, block.residual.live
        specs, select = self._attention_specs(block, target), selection(self._layout)
        attention = FirstTokenAttention.build(AttentionWeights.of(self._weights, a), self._layout, specs)
        parts = ("first", "scores", "exponentials", "sums", "inverse")
        first, scores, exponentials, sums, inverse = (f"{name}.{part}" for part in parts)
        back = first if residual == x else f"{name}.residual"
        phase = _first_phase(name, attention.sums(specs.first) if specs.first else None, slice(1))
        mixed_by, divisors = phase.result or exponentials, attention.sums(specs.inverse)

        def choose(be: Backend, live: Live) -> Live:
            return {chosen: select.apply(be, live[of]) for chosen, of in {first: x, back: residual}.items()}

        def score(be: Backend, live: Live) -> Live:
            return {scores: attention.scores(be, live[x], live[first][0])}

        def exponentiate(be: Backend, live: Live) -> Live:
            return {exponentials: attention.exponentials(be, live[scores])}

        def add_up(be: Backend, live: Live) -> Live:
            return {sums: (attention.add_up(be, live[mixed_by], live[MASK][0]),)}

        def invert(be: Backend, live: Live) -> Live:
            return {inverse: (divisors.invert(be, live[sums][0]),)}

        def project(be: Backend, live: Live) -> Live:
            exps, divisor = live[mixed_by], live[inverse][0]
            return {
                target.live: (attention.project(be, live[x], exps, divisor, live[MASK][0], live[back][0]),)
            }

        return [
            Operation(f"{name}.select", (x, residual), choose),
            Operation(f"{name}.scores", (x, first), score),
            Operation(f"{name}.exp", (scores,), exponentiate),
            *phase.operations,
            Operation(f"{name}.sums", (mixed_by,), add_up),
            Operation(f"{name}.invert", (sums,), invert),
            Operation(f"{name}.project", (x, mixed_by, inverse, back), project),
        ]

    def _feed_forward(self, block: Block[Form], f: FeedForwardNode, target: Target) -> list[Operation]:
        form, residual, vector = block.x.form, block.residual, block.x.form.vector
        activation, exit_ = (
            self._specs.function(block.name).function,
            self._target_exit(target, vector=vector),
        )
        weights = (*self._weights.dense(f.wide), *self._weights.dense(f.narrow))
        bounds, back, centred = (form.bound, exit_), residual.form.bound, bool(target.norm)
        forward: AnyForward
        if vector:
            forward = VectorForward.build(
                weights, self._vector, activation, *bounds, residual=back, centred=centred
            )
        else:
            forward = FeedForward.build(
                weights, self._layout, activation, *bounds, residual=back, centred=centred
            )
        return forward_operations(forward, block.name, block.x.live, residual.live, target.live)

    def _attention_specs(self, block: Block[Form], target: Target) -> AttentionSpecs:
        s, exit_ = self._specs.attention(block.name), self._target_exit(target, vector=block.rows == 1)
        bounds = (s.context, s.attended, block.x.form.bound, exit_, block.residual.form.bound)
        centred = bool(target.norm)
        return AttentionSpecs(s.exp, s.inverse, *bounds, centred=centred, first=s.first, share=s.share)

    def _target_exit(self, target: Target, *, vector: bool) -> float:
        return self._exit(target.norm, vector=vector) if target.norm else target.bound

    def _exit(self, norm: str, *, vector: bool) -> float:
        """What the centred input of a norm is divided by."""
        s = self._specs.norm(norm)
        return exact_bound(s.centred, s.rsqrt, self._vector.size) if vector else s.centred


@dataclass(frozen=True)
class Phase:
    """Operations between exponentials and what is mixed in their place; none, and no name, for one phase."""

    operations: Sequence[Operation] = ()
    result: str = ""


def _first_phase(name: str, sums: RowSums | None, masks: slice) -> Phase:
    """Of a softmax in two phases. masks: those of the request in the layout of the scores."""
    if sums is None:
        return Phase()
    parts = ("exponentials", "halves", "half_inverse", "squares")
    exponentials, halves, inverse, squares = (f"{name}.{part}" for part in parts)

    def add_up(be: Backend, live: Live) -> Live:
        return {halves: (sums.masked(be, live[exponentials], live[MASK][masks]),)}

    def invert(be: Backend, live: Live) -> Live:
        return {inverse: (sums.invert(be, live[halves][0]),)}

    def square(be: Backend, live: Live) -> Live:
        found = sums.squares(be, live[exponentials], live[MASK][masks], live[inverse][0])
        return {squares: found}

    operations = (
        Operation(halves, (exponentials,), add_up),
        Operation(inverse, (halves,), invert),
        Operation(squares, (exponentials, inverse), square),
    )
    return Phase(operations, squares)
