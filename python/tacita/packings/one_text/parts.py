"""The blocks of one text as operations: tokens in a packing's layout, and a vector once only the first token
is left.

A packing adds what is its own: attention, the mean over tokens, and its request. Where only one row of an
attention is asked for, it and all that follows runs on one vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

import numpy as np

from tacita.approx.comparison import Comparison
from tacita.approx.spec import Spec
from tacita.blocks.base import Dense, Norm
from tacita.blocks.base import FeedForward as FeedForwardNode
from tacita.blocks.graph import Graph
from tacita.blocks.shapes import GATE, GROUPED, NORMED, REACH, RELATIVE, ROTARY, UNCENTRED
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array
from tacita.layouts.one_text import OneTextResponse
from tacita.layouts.vector import VectorLayout
from tacita.packings.base import Block, Operation, Probe, Readers, Target, Tensor, heads_of, refuse_node
from tacita.packings.one_text.attention import AttentionSpecs, TokenAnswering
from tacita.packings.one_text.linear import Cts, FeedForward, L, Linear, TextNorm
from tacita.packings.operations import (
    ANSWER,
    answer_operation,
    forward_operations,
    function_operations,
    gated_operations,
    norm_check,
    norm_operations,
)
from tacita.packings.specs import CircuitSpecs
from tacita.packings.stored import Stored, output_bound
from tacita.packings.vector.answer import Answering, at_first, vector_answering
from tacita.packings.vector.choice import Choice
from tacita.packings.vector.linear import VectorNorm, exact_bound
from tacita.packings.vector.linear import linear_of as vector_linear
from tacita.packings.weights import AttentionWeights, ForwardWeights, Gate, summed
from tacita.slots.base import Backend

HIDDEN, MASK = "hidden", "mask"


@dataclass(frozen=True)
class Form:
    """How a packing of one text holds a tensor. bound: stored = value / bound. vector: the first token alone.
    carried: token 0 in place of the copies, where a packing has them. bare: of a function, which leaves
    anything where no feature is (`Linear.bare`), for a norm or an answer."""

    bound: float
    vector: bool = False
    carried: bool = False
    bare: bool = False


class OneTextParts(ABC, Generic[L]):
    """The blocks of one text (`packings.base.Parts`), whatever the layout of tokens. linear: of the hidden
    states. carries: whether a norm may leave token 0 beside its result, for an attention of one query.

    Raises PlanError for attentions of several kinds.
    """

    packing: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset({GATE, GROUPED, NORMED, REACH, RELATIVE, ROTARY, UNCENTRED})
    answered: ClassVar[type[OneTextResponse]]

    def __init__(
        self,
        graph: Graph,
        weights: Weights,
        specs: CircuitSpecs,
        sizes: tuple[int, int],
        linear: Linear[L],
        *,
        carries: bool = False,
    ) -> None:
        """Starts with no block lowered. sizes: slots and tokens."""
        self._graph, self._weights, self._specs = graph, weights, specs
        (self._slots, self._tokens), self._heads = sizes, heads_of(graph, self.packing)
        self._linear, self._layout, self._carries = linear, linear.layout, carries
        self._vector = VectorLayout(self._slots, self._layout.size)
        self._answering: Answering | TokenAnswering | Choice | None = None
        self._probes: dict[str, Probe] = {}

    @abstractmethod
    def _all_tokens(self, name: str, block: Block[Form], target: Target, built: Built) -> list[Operation]:
        """An attention with as many queries as tokens. name: of the node."""

    @abstractmethod
    def _first_token(self, name: str, block: Block[Form], target: Target, built: Built) -> list[Operation]:
        """An attention of one query; the result is a vector."""

    @abstractmethod
    def _norm(self, fields: NormFields, *, carry: bool) -> TextNorm[L]:
        """Makes a norm of tokens. fields: those of `TextNorm` after the layout."""

    @abstractmethod
    def _mean(self, x: Tensor[Form], dense: Pair | None, name: str) -> tuple[Operation, Answering]:
        """The mean over tokens, and the response of it or of a dense map of it."""

    @abstractmethod
    def _averaged(self, x: Tensor[Form], name: str) -> Operation:
        """The mean over tokens as a vector."""

    def response(self) -> OneTextResponse:
        """The layout of the response, once `answer` has been called."""
        assert self._answering is not None
        return self._answering.response

    def probes(self) -> Mapping[str, Probe]:
        """The probes of the blocks lowered so far, by stage."""
        return self._probes

    def block(self, block: Block[Form], target: Target) -> list[Operation]:
        """Lowers an attention or a feed-forward block. Raises PlanError for what the packing does not
        admit."""
        if block.x.form.bare or block.residual.form.bare:
            raise refuse_node(self.packing, block.name, "a function of all tokens as its input")
        if isinstance(block.node, FeedForwardNode):
            return self._feed_forward(block, block.node, target)
        if block.rows not in (1, self._tokens):
            raise refuse_node(self.packing, block.name, f"{block.rows} of {self._tokens} rows")
        args = self._weights, block.node, self._tokens, self._specs, block.name
        built = AttentionWeights.of(*args), self._attention_specs(block, target)
        lower = self._all_tokens if block.rows == self._tokens else self._first_token
        return lower(block.name, block, target, built)

    def stored(self, target: Target, block: Block[Form]) -> Tensor[Form]:
        """The sum of a target without a norm: a vector where one row is left."""
        vector = block.x.form.vector or block.rows == 1
        return Tensor(target.live, block.rows, Form(target.bound, vector=vector))

    def centre(self, x: Tensor[Form], target: Target) -> list[Operation]:
        """Takes off the mean by rotations and scales for the target's norm. Levels: one, or two where
        `Linear.residual` says so. What is bare goes through a map."""
        linear = self._linear_of(x.form)
        factor = x.form.bound / self._target_exit(target, vector=x.form.vector)

        if x.form.bare:
            matrix, zero = np.eye(self._layout.size) * factor, np.zeros(self._layout.size)
            through = linear.affine(
                *summed(matrix, zero, centred=target.centred), linear.bare, linear.bare
            ).apply

        def run(be: Backend, cts: Cts) -> Cts:
            return through(be, cts) if x.form.bare else linear.centre(be, cts, factor, centred=target.centred)

        return [Operation.of(f"{target.norm}.centre", (x.live,), target.live, run)]

    def sum(
        self, name: str, x: Tensor[Form], y: Tensor[Form], factor: float
    ) -> tuple[list[Operation], Tensor[Form]]:
        """A product by numbers each: one level."""
        if x.form.vector != y.form.vector or x.form.bare or y.form.bare or x.rows != y.rows:
            raise refuse_node(self.packing, name, "a sum of tensors in different layouts")
        linear, bound = self._linear_of(x.form), x.form.bound + abs(factor) * y.form.bound
        parts = x.form.bound / bound, factor * y.form.bound / bound

        def run(be: Backend, *terms: Cts) -> Cts:
            left, right = (
                linear.centre(be, cts, part, centred=False) for cts, part in zip(terms, parts, strict=True)
            )
            total = tuple(be.add(a, b) for a, b in zip(left, right, strict=True))
            return linear.complete(be, total, linear.layout)

        operation = Operation.of(name, (x.live, y.live), name, run)
        return [operation], Tensor(name, x.rows, Form(bound, vector=x.form.vector))

    def mean(self, x: Tensor[Form], name: str) -> tuple[list[Operation], Tensor[Form]]:
        """Averages the tokens into a vector."""
        if x.form.bare:
            raise refuse_node(self.packing, name, "a function of all tokens as its input")
        return [self._averaged(x, name)], Tensor(name, 1, Form(x.form.bound, vector=True))

    def norm(self, name: str, n: Norm, rows: int, readers: Readers) -> tuple[list[Operation], Tensor[Form]]:
        """Gamma and beta are applied here."""
        specs, carry = self._specs.norm(name), readers.first_row and self._carries
        form = Form(specs.result, vector=rows == 1, carried=carry)
        exit_, parts = self._exit(name, vector=form.vector), self._weights.norm(n)
        fields = (specs.rsqrt, n.epsilon, *parts, exit_, specs.result)
        norm = VectorNorm(self._vector, *fields) if form.vector else self._norm(fields, carry=carry)
        check = norm_check(at_first(self._slots), specs.rsqrt, 1.0 / output_bound(specs.rsqrt))
        self._probes[name] = Probe(name, lambda slots: self._values(form, slots), f"{name}.result")
        return norm_operations(norm, name, check if readers.last else None), Tensor(name, rows, form)

    def function(
        self, x: Tensor[Form], dense: Dense, name: str, kind: str
    ) -> tuple[list[Operation], Tensor[Form]]:
        """Applies a function of a dense map to the vector or to all tokens, as x comes. Raises PlanError for
        a map that changes the number of features."""
        if dense.outputs != self._layout.size:
            raise refuse_node(self.packing, name, f"a function of {dense.outputs} features")
        linear, src = self._linear_of(x.form), self._source(x.form)
        specs, (weight, bias) = self._specs.function(name), self._weights.dense(dense)
        spec = specs.function
        form = Stored.input_of(spec)
        matrix, shift = weight * (x.form.bound * form.scale), bias * form.scale + form.offset
        mapped = linear.affine(matrix, shift, src, linear.bare)
        bare = not x.form.vector or self._vector.period > self._vector.size  # where no feature is: anything
        form_of = Form(output_bound(spec), vector=x.form.vector, bare=bare)
        result = Tensor(name, x.rows, form_of)
        return function_operations(mapped.apply, spec, name, x.live, specs.refreshed), result

    def answer(self, x: Tensor[Form], dense: Dense | None, mean: str) -> list[Operation]:
        """Lowers the response: a choice of one word, or x, or a dense map of it, of the mean, the vector or
        every token."""
        weights = self._weights.dense(dense) if dense else None
        if self._specs.comparison:
            return self._choice(x, weights, self._specs.comparison)
        if mean and x.form.bare:
            raise refuse_node(self.packing, mean, "a function of all tokens as its input")
        if mean:
            operation, self._answering = self._mean(x, weights, mean)
            return [operation, answer_operation(self._answering, mean)]
        if x.form.vector:
            self._answering = self._of_vector(weights, x.form.bound)
        else:
            self._answering = self._of_tokens(x, weights)
        return [answer_operation(self._answering, x.live)]

    def _choice(self, x: Tensor[Form], dense: Pair | None, comparison: Comparison) -> list[Operation]:
        """The likeliest of a vocabulary, and not its logits."""
        if dense is None or not x.form.vector:
            raise refuse_node(self.packing, ANSWER, "a choice of something else than one row's words")
        bounds = x.form.bound, self._specs.answer
        self._answering = choice = Choice.build(self.answered, dense, self._vector, bounds, comparison)
        return choice.operations(x.live)

    def _of_tokens(self, x: Tensor[Form], dense: Pair | None) -> TokenAnswering:
        """Every token's own answer."""
        if x.rows != self._tokens:
            raise refuse_node(self.packing, ANSWER, f"{x.rows} of {self._tokens} rows")
        size = self._layout.size
        weight, bias = dense or (np.eye(size), np.zeros(size))
        bound = self._specs.answer if dense else x.form.bound
        response = self._token_response(len(bias), bound)
        src = self._source(x.form)
        return TokenAnswering.build(weight, bias, self._linear, src, x.form.bound, response)

    @abstractmethod
    def _token_response(self, size: int, bound: float) -> OneTextResponse:
        """The layout of an answer of so many numbers for every token."""

    def _source(self, form: Form) -> Any:
        """The layout from which a map reads."""
        linear = self._linear_of(form)
        return linear.bare if form.bare else linear.layout

    def _of_vector(self, dense: Pair | None, entry: float) -> Answering:
        return vector_answering(self.answered, dense, self._vector, entry, self._specs.answer)

    def _feed_forward(self, block: Block[Form], f: FeedForwardNode, target: Target) -> list[Operation]:
        x, residual, specs = block.x, block.residual, self._specs.function(block.name)
        gate = Gate.of(specs) if f.gate else None
        forward = FeedForward.build(
            ForwardWeights.of(self._weights, f),
            self._linear_of(x.form),
            specs.function,
            x.form.bound,
            self._target_exit(target, vector=x.form.vector),
            residual=residual.form.bound,
            ending=target.ending,
            gate=gate,
        )
        operations = gated_operations if gate else forward_operations
        names = (block.name, x.live, residual.live, target.live)
        return operations(forward, *names, specs.refreshed)

    def _attention_specs(self, block: Block[Form], target: Target) -> AttentionSpecs:
        s, exit_ = self._specs.attention(block.name), self._target_exit(target, vector=block.rows == 1)
        bounds = (s.context, s.attended, block.x.form.bound, exit_, block.residual.form.bound)
        softmax = (s.phases, s.share, s.rows)
        return AttentionSpecs(s.exp, s.inverse, *bounds, target.ending, *softmax)

    def _linear_of(self, form: Form) -> Linear[Any]:
        return vector_linear(self._vector) if form.vector else self._linear

    def _values(self, form: Form, slots: Sequence[Array]) -> Array:
        """Decoded ciphertexts -> (1, tokens or 1, features)."""
        rows = self._linear_of(form).layout.unpack(slots)
        return np.asarray(np.real(rows)[None] * form.bound)

    def _target_exit(self, target: Target, *, vector: bool) -> float:
        return self._exit(target.norm, vector=vector) if target.norm else target.bound

    def _exit(self, norm: str, *, vector: bool) -> float:
        """What the centred input of a norm is divided by."""
        s = self._specs.norm(norm)
        return exact_bound(s.centred, s.rsqrt, self._vector.size) if vector else s.centred

    def _attended(self, rows: int) -> bool:
        """Whether an attention of the model has so many queries."""
        return any(step.output.shape[0] == rows for step in self._graph.steps if step.op == "attention")


Pair = tuple[Array, Array]  # a dense map's weight and bias
NormFields = tuple[Spec, float, Array, Array, float, float]
Built = tuple[AttentionWeights, AttentionSpecs]


def roots_of(
    built: Built, name: str, reads: Sequence[str], squares: Callable[..., Any]
) -> tuple[list[Operation], tuple[str, ...]]:
    """The operations that normalise queries and keys, and the tensors of their roots; none without a norm."""
    normed = built[0].normed
    return normed.operations(name, reads, squares) if normed else ([], ())
