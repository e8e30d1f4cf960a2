"""The blocks of a model as operations, in two layouts: one of all tokens, and one of the first token, once
only that is left.

A packing adds what is its own: attention, norms, the mean over tokens, its request and its answers
(`OneTextLowering` has those of packings of one text). Where only one row of an attention is asked for, it and
all that follows runs in the layout of the first token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic

import numpy as np

from tacita.approx.comparison import Comparison
from tacita.blocks.base import Attention, Dense, FeedForward, Norm
from tacita.blocks.graph import Graph
from tacita.blocks.shapes import GATE, GROUPED, NORMED, REACH, RELATIVE, ROTARY, UNCENTRED
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array
from tacita.layouts.registry import Shape
from tacita.layouts.runs import HIDDEN, MASK, Request, Response
from tacita.layouts.runs import Tensor as Numbers
from tacita.layouts.vector import VectorLayout
from tacita.packings.base import (
    Block,
    Form,
    Kept,
    Operation,
    Probe,
    Readers,
    Target,
    Tensor,
    refuse_node,
)
from tacita.packings.encoding import Argument, Encoding, OutputSpec, WeightBias, output_bound
from tacita.packings.operations import (
    ANSWER,
    Answering,
    answer_operation,
    approximated,
    forward_operations,
    norm_check,
    norm_operations,
)
from tacita.packings.shared import linear as shared
from tacita.packings.shared.answer import block, token_answering, vector_answering
from tacita.packings.shared.choice import Choice
from tacita.packings.shared.linear import L, Linear, TextNorm, exact_bound, vector_linear
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionPlan, ForwardPlan
from tacita.slots.base import Backend, Cts


class Lowering(ABC):
    """The blocks of a model as operations of a packing, whatever its layouts. `lowering.lower` calls the
    public methods in the order of a model's graph; each refuses what the packing does not have with a
    PlanError, and adds its operations to `operations`.

    The names of the tensors that an operation writes begin with the name of its node, and each result is
    named as its node. Stored values lie in [-1, 1]. options: of blocks (see `blocks.shapes`) that the packing
    has; a node with another is refused.
    """

    packing: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset({GATE, GROUPED, NORMED, REACH, RELATIVE, ROTARY, UNCENTRED})
    kept: tuple[Kept, ...] = ()  # of `Circuit`

    def __init__(
        self,
        graph: Graph,
        weights: Weights,
        specs: CircuitSpecs,
        sizes: tuple[int, int],
        tokens: Linear[Any],
        first: Linear[Any],
    ) -> None:
        """Starts with no block lowered. sizes: slots and tokens. tokens, first: how to compute on all tokens
        and on the first one."""
        self._graph, self._weights, self._specs = graph, weights, specs
        self._slots, self._tokens = sizes
        self._of_tokens, self._of_first, self._size = tokens, first, tokens.layout.size
        self._answering: Any = None
        self._as_stored: dict[str, str] = {}  # norm -> the tensor that it takes as others do
        self.operations: list[Operation] = []
        self.probes: dict[str, Probe] = {}  # of the blocks lowered so far, by stage
        self.fusible: dict[str, tuple[str, str]] = {}  # of `Circuit`

    @property
    def fixed(self) -> frozenset[str]:
        """Tensors of the request that pass through every stage as they came: the mask."""
        return frozenset({MASK})

    def entry(self) -> Tensor:
        """The hidden states of the request, all tokens in their layout."""
        return Tensor(HIDDEN, self._tokens, Form(Encoding(self._specs.entry)))

    @abstractmethod
    def request(self) -> Request:
        """The layout of the request."""

    def _all_tokens(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        """An attention with as many queries as tokens."""
        raise refuse_node(self.packing, block.name, "an attention of every token")

    def _first_token(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        """An attention of one query; the result is in the layout of the first token."""
        raise refuse_node(self.packing, block.name, "an attention of one token")

    def _norm(self, name: str, n: Norm, form: Form) -> tuple[shared.Norm, Encoding]:
        """A norm with this form of its result, and the encoding of that."""
        raise refuse_node(self.packing, name, "a norm")

    def _averaged(self, x: Tensor, name: str) -> Operation:
        """The mean over tokens in the layout of the first one."""
        raise refuse_node(self.packing, name, "a norm behind it")

    def _mean_answer(self, x: Tensor, dense: WeightBias | None, name: str) -> tuple[Operation, Answering]:
        """The mean over tokens, and the response of it or of a dense map of it."""
        raise refuse_node(self.packing, name, "an answer behind it")

    def _first_answer(self, x: Tensor, dense: WeightBias | None) -> Answering:
        """The response of the first token, or of a dense map of it."""
        raise refuse_node(self.packing, ANSWER, "one token")

    def _token_answer(self, x: Tensor, dense: WeightBias | None) -> Answering:
        """Every token's own answer, of it or of a dense map of it."""
        raise refuse_node(self.packing, ANSWER, "every token")

    def _choice(self, x: Tensor, dense: WeightBias, comparison: Comparison) -> Choice:
        """The likeliest of the words whose logits are a dense map of the first token. A packing without it
        refuses such plans with PlanError."""
        raise refuse_node(self.packing, ANSWER, "a choice of a word")

    def _unpack(self, form: Form, slots: Sequence[Array]) -> Array:
        """Decoded ciphertexts -> (texts, tokens or 1, features), as they are stored."""
        return np.asarray(np.real(self._linear_of(form).layout.unpack(slots))[None])

    @property
    def _check_places(self) -> Array:
        """A vector with 1 where the norm check of the response is."""
        return block(np.ones(1), 0, self._slots)

    def response(self) -> Response:
        """The layout of the response, once `answer` has been called."""
        response: Response = self._answering.response
        return response

    def block(self, block: Block, target: Target) -> None:
        """Leaves residual + block, an attention or a feed-forward, in the target."""
        self._refuse_bare(block.name, block.x, block.residual)
        if isinstance(block.node, FeedForward):
            self.operations += self._feed_forward(block, block.node, target)
            return
        if block.rows not in (1, self._tokens):
            raise refuse_node(self.packing, block.name, f"{block.rows} of {self._tokens} rows")
        lower = self._all_tokens if block.rows == self._tokens else self._first_token
        self.operations += lower(block, target, self._attention_plan(block, block.node, target))

    def stored(self, target: Target, block: Block) -> Tensor:
        """The sum of a target without a norm: of the first token where one row is left."""
        first = block.x.form.first or block.rows == 1
        norm = target.reader if self._linear(first=first).exact else ""
        encoding = Encoding(self._bound(target, first=first))
        return Tensor(target.live, block.rows, Form(encoding, first, zero_mean=target.centred, norm=norm))

    def centre(self, x: Tensor, target: Target) -> None:
        """Leaves a tensor that others read too as the target's norm takes it, without its mean. Levels: of
        `Linear.centre`; none where it is stored so."""
        if x.form.norm == target.norm:
            self._as_stored[target.norm] = x.live
            return
        output = self._output(target, x.form, first=x.form.first)
        run = self._linear_of(x.form).centre(output, bare=x.form.bare)
        self.operations.append(Operation.of(f"{target.norm}.centre", (x.live,), target.live, run))

    def sum(self, name: str, x: Tensor, y: Tensor, factor: float) -> Tensor:
        """x + factor * y of two tensors that are there, within the sum of their bounds. One level."""
        forms = x.form, y.form
        same = x.form.first == y.form.first and x.rows == y.rows
        if not same or any(form.bare or not form.encoding.even for form in forms):
            raise refuse_node(self.packing, name, "a sum of tensors in different layouts")
        linear, left, right = self._linear_of(x.form), x.form.encoding.bound, factor * y.form.encoding.bound
        bound = left + abs(right)

        def run(be: Backend, *terms: Cts) -> Cts:
            parts = zip(terms, (left / bound, right / bound), strict=True)
            first, second = (linear.residual(be, cts, linear.layout, f, centred=False) for cts, f in parts)
            total = tuple(be.add(a, b) for a, b in zip(first, second, strict=True))
            return linear.complete(be, total, linear.layout)

        self.operations.append(Operation.of(name, (x.live, y.live), name, run))
        return Tensor(name, x.rows, Form(Encoding(bound), x.form.first))

    def mean(self, x: Tensor, name: str) -> Tensor:
        """Averages the real tokens into the layout of the first one, for a norm."""
        self._refuse_bare(name, x)
        self.operations.append(self._averaged(x, name))
        return Tensor(name, 1, Form(x.form.encoding, first=True))

    def norm(self, name: str, n: Norm, rows: int, readers: Readers) -> Tensor:
        """`NAME.centred` -> the normalised tensor, with the check of the response where nothing is normalised
        after it."""
        if self._specs.norm(name).fused:
            raise refuse_node(self.packing, name, "a fused norm")
        form = self._norm_form(rows, readers)
        norm, encoding = self._norm(name, n, form)
        form = replace(form, encoding=encoding)
        check = norm_check(self._check_places, norm.rsqrt, norm.root_scale) if readers.last else None
        self._probe(name, form)
        entry = self._as_stored.get(name, f"{name}.centred")
        self.operations += norm_operations(norm, name, entry, check, MASK if form.weighed else "")
        return Tensor(name, rows, form)

    def _probe(self, name: str, form: Form) -> None:
        if not form.weighed:
            self.probes[name] = Probe(name, partial(self._values, form), f"{name}.result")

    def function(self, x: Tensor, dense: Dense, name: str) -> Tensor:
        """Applies a function of a dense map to the first token or to all tokens, as x comes. Raises PlanError
        for a map that changes the number of features."""
        if dense.outputs != self._size:
            raise refuse_node(self.packing, name, f"a function of {dense.outputs} features")
        linear, specs = self._linear_of(x.form), self._specs.function(name)
        stored = Argument.of(specs.function).store(*x.form.encoding.fold(*self._weights.dense(dense)))
        mapped = linear.affine(*stored, self._source(x.form), linear.bare)
        form = Form(Encoding(output_bound(specs.function)), x.form.first, bare=linear.padded)
        argument = f"{name}.argument"
        self.operations += [
            Operation.of(argument, (x.live,), argument, mapped.apply),
            approximated(name, argument, name, specs.function, specs.refreshed),
        ]
        return Tensor(name, x.rows, form)

    def answer(self, x: Tensor, dense: Dense | None, mean: str) -> None:
        """Lowers the response: x, or a dense map of it, of one row or of every row, or the likeliest word of
        a vocabulary in place of its logits. mean: the node by which x is averaged first; empty for rows that
        are there."""
        weights = self._weights.dense(dense) if dense else None
        if self._specs.comparison:
            if weights is None or mean or not x.form.first:
                raise refuse_node(self.packing, ANSWER, "a choice of something else than one row's words")
            self._answering = choice = self._choice(x, weights, self._specs.comparison)
            self.operations += choice.operations(x.live)
            return
        if mean:
            self._refuse_bare(mean, x)
            operation, self._answering = self._mean_answer(x, weights, mean)
            self.operations += [operation, answer_operation(self._answering, mean)]
            return
        if not x.form.first and x.rows != self._tokens:
            raise refuse_node(self.packing, ANSWER, f"{x.rows} of {self._tokens} rows")
        make = self._first_answer if x.form.first else self._token_answer
        self._answering = make(x, weights)
        self.operations.append(answer_operation(self._answering, x.live))

    @property
    def _identity(self) -> WeightBias:
        return np.eye(self._size), np.zeros(self._size)

    def _refuse_bare(self, name: str, *tensors: Tensor) -> None:
        if any(x.form.bare for x in tensors):
            raise refuse_node(self.packing, name, "a function of all tokens as its input")

    def _norm_form(self, rows: int, readers: Readers) -> Form:
        return Form(Encoding(1.0), first=rows == 1)

    def _source(self, form: Form) -> Any:
        linear = self._linear_of(form)
        return linear.bare if form.bare else linear.layout

    def _feed_forward(self, block: Block, f: FeedForward, target: Target) -> list[Operation]:
        names = block.name, block.x.live, block.residual.live, target.live
        return forward_operations(self._forward_plan(block, f, target), self._linear_of(block.x.form), *names)

    def _forward_plan(self, block: Block, f: FeedForward, target: Target) -> ForwardPlan:
        output = self._output(target, block.residual.form, first=block.x.form.first)
        specs = self._specs.function(block.name)
        return ForwardPlan.of(self._weights, f, specs, block.x.form.encoding, output)

    def _attention_plan(self, block: Block, a: Attention, target: Target) -> AttentionPlan:
        output = self._output(target, block.residual.form, first=block.rows == 1)
        names = self._specs, block.name
        return AttentionPlan.of(self._weights, a, self._tokens, *names, block.x.form.encoding, output)

    def _linear_of(self, form: Form) -> Linear[Any]:
        return self._linear(first=form.first)

    def _linear(self, *, first: bool) -> Linear[Any]:
        return self._of_first if first else self._of_tokens

    def _values(self, form: Form, slots: Sequence[Array]) -> Array:
        return form.encoding.value(self._unpack(form, slots))

    def _output(self, target: Target, residual: Form, *, first: bool) -> OutputSpec:
        """How a sum is stored: as its only norm takes it, or within its bound."""
        bound, alone = self._bound(target, first=first), bool(target.norm)
        return OutputSpec(bound, residual.encoding, target.centred, not alone, residual.zero_mean)

    def _bound(self, target: Target, *, first: bool) -> float:
        """What a sum is divided by: as its norm takes it, where it has one of its own or its layout adds
        nothing to a sum that others read too."""
        norm = target.norm or (target.reader if self._linear(first=first).exact else "")
        return self._norm_entry(norm, first=first) if norm else target.bound

    def _norm_entry(self, norm: str, *, first: bool) -> float:
        """What the centred input of a norm is divided by."""
        specs, linear = self._specs.norm(norm), self._linear(first=first)
        return exact_bound(specs.centred, specs.rsqrt, self._size) if linear.exact else specs.centred

    def _has_queries(self, rows: int) -> bool:
        return any(step.output.shape[0] == rows for step in self._graph.steps if step.op == "attention")


class OneTextLowering(Lowering, Generic[L]):
    """The blocks of one text: tokens in the packing's layout, the first one as a vector. packs_first: whether
    a norm may leave token 0 beside its result, for an attention of one query."""

    def __init__(
        self,
        graph: Graph,
        weights: Weights,
        specs: CircuitSpecs,
        shape: Shape,
        linear: Linear[L],
        *,
        packs_first: bool = False,
    ) -> None:
        """Starts with no block lowered. linear: of the hidden states."""
        self._layout, self._vector = linear.layout, VectorLayout(shape.slots, linear.layout.size)
        super().__init__(
            graph, weights, specs, (shape.slots, shape.tokens), linear, vector_linear(self._vector)
        )
        self._packs_first = packs_first

    def _request(self, tensors: Mapping[str, Numbers]) -> Request:
        return Request(self._slots, 1, self._tokens, self._size, self._specs.entry, tensors)

    def _choice(self, x: Tensor, dense: WeightBias, comparison: Comparison) -> Choice:
        bounds = x.form.encoding.bound, self._specs.answer
        return Choice.build(dense, self._vector, bounds, comparison)

    def _norm_form(self, rows: int, readers: Readers) -> Form:
        return Form(Encoding(1.0), first=rows == 1, packed_first=readers.first_row and self._packs_first)

    def _norm(self, name: str, n: Norm, form: Form) -> tuple[TextNorm[Any], Encoding]:
        """Gamma and beta are applied here."""
        specs, layout = self._specs.norm(name), self._linear_of(form).layout
        sizes = self._size, self._norm_entry(name, first=form.first), layout
        fields = (specs.rsqrt, n.epsilon, *sizes, *self._weights.norm(n), specs.result)
        return self._linear_of(form).norm(*fields), Encoding(specs.result)

    def _first_answer(self, x: Tensor, dense: WeightBias | None) -> Answering:
        bounds = x.form.encoding.bound, self._specs.answer
        return vector_answering(dense, self._vector, *bounds)

    def _token_answer(self, x: Tensor, dense: WeightBias | None) -> Answering:
        entry = x.form.encoding.bound
        sizes, bounds = (self._slots, self._tokens), (entry, self._specs.answer if dense else entry)
        affine, src = dense or self._identity, self._source(x.form)
        return token_answering(affine, self._of_tokens, src, sizes, bounds)
