"""The blocks of a batch as operations: interleaved columns, and cells once only the first token is left.

The request is `hidden` and `mask` (1/length at real tokens). Where only one row of an attention is asked for,
it and all that follows runs on the first token of every sequence, in cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from tacita.blocks.base import Attention, Dense, FeedForward, Norm
from tacita.blocks.graph import Graph
from tacita.blocks.shapes import GATE, GROUPED, NORMED, REACH, RELATIVE, ROTARY, UNCENTRED
from tacita.blocks.weights import Weights
from tacita.errors import PlanError
from tacita.layouts.arrays import refuse
from tacita.layouts.columns import (
    HIDDEN,
    MASK,
    ROTATIONS,
    Array,
    BatchRequest,
    BatchResponse,
    BatchShape,
    Cells,
    Columns,
)
from tacita.packings.base import Block, Operation, Probe, Readers, Target, Tensor, heads_of, refuse_node
from tacita.packings.columns.answer import CellAnswering, MeanAnswering, MeanCells, TokenAnswering
from tacita.packings.columns.attention import BatchAttention, BatchAttentionSpecs, Split
from tacita.packings.columns.cells import CellMap
from tacita.packings.columns.first_token import BatchFirstToken, CellForward, CellNorm
from tacita.packings.columns.linear import BatchForward, BatchNorm, ColumnMap, Cts, Encoding, Sum
from tacita.packings.operations import (
    ANSWER,
    Of,
    answer_operation,
    exponentials,
    forward_operations,
    function_operations,
    gated_operations,
    norm_check,
    norm_operations,
    selected,
)
from tacita.packings.specs import CircuitSpecs
from tacita.packings.stored import Stored, output_bound
from tacita.packings.weights import AttentionWeights, ForwardWeights, Gate
from tacita.slots.base import Backend


@dataclass(frozen=True, eq=False)
class Form:
    """How columns hold a tensor. encoding: of stored numbers, by feature. cells: in cells, the first token
    alone; else in columns.

    weighed: stored numbers come times the mask, for a mean.
    """

    encoding: Encoding
    cells: bool = False
    weighed: bool = False


class ColumnParts:
    """The blocks of a batch (`packings.base.Parts`) in columns and cells. graph: of the model, at the shape's
    tokens. rotations: one of `ROTATIONS`.

    Raises ShapeError for lanes that the model does not admit, PlanError for an unknown way to rotate.
    """

    packing: ClassVar[str] = "columns"
    options: ClassVar[frozenset[str]] = frozenset({GATE, GROUPED, NORMED, REACH, RELATIVE, ROTARY, UNCENTRED})

    def __init__(
        self,
        graph: Graph,
        weights: Weights,
        specs: CircuitSpecs,
        shape: BatchShape,
        rotations: str = "double",
    ) -> None:
        if rotations not in ROTATIONS:
            raise PlanError(f"columns with rotations {rotations!r}", hint=f"one of {', '.join(ROTATIONS)}")
        queries = {step.output.shape[0] for step in graph.steps if step.op == "attention"}
        if shape.lanes > 1 and 1 in queries:
            raise refuse("interleaved", f"{shape.lanes} lanes with an answer read from [CLS]", "use one lane")
        heads, head_size = heads_of(graph, "columns")
        self._weights, self._specs, self._shape = weights, specs, shape
        self._columns = Columns.by_heads(shape, heads, head_size)
        self._cells = Cells(shape, heads * head_size)
        double = Split.double(shape.tokens)
        self._splits = (Split.single(shape.tokens) if rotations == "single" else double, double)
        self._heads, self._head_size = heads, head_size
        self._response = BatchResponse(
            shape.slots,
            shape.tokens,
            shape.lanes,
            graph.steps[-1].output.shape[1],
            specs.answer,
            graph.steps[-1].output.shape[0],
        )
        self._probes: dict[str, Probe] = {}

    @property
    def fixed(self) -> frozenset[str]:
        """The mask."""
        return frozenset({MASK})

    def entry(self) -> Tensor[Form]:
        """The hidden states of the request, in columns."""
        encoding = Encoding.bounded(self._specs.entry, self._columns.size)
        return Tensor(HIDDEN, self._shape.tokens, Form(encoding))

    def request(self) -> BatchRequest:
        """The layout of the request."""
        shape = self._shape
        return BatchRequest(
            shape.slots, shape.tokens, shape.lanes, self._heads, self._head_size, self._specs.entry
        )

    def response(self) -> BatchResponse:
        """The layout of the response."""
        return self._response

    def probes(self) -> Mapping[str, Probe]:
        """The probes of the blocks lowered so far, by stage."""
        return self._probes

    def block(self, block: Block[Form], target: Target) -> list[Operation]:
        """Lowers an attention or a feed-forward block. Raises PlanError for an attention of other rows than
        all or one."""
        if isinstance(block.node, FeedForward):
            return self._feed_forward(block, block.node, target)
        if block.rows == self._shape.tokens:
            return self._attention(block, block.node, target)
        if block.rows == 1:
            return self._first_token(block, block.node, target)
        raise refuse_node("columns", block.name, f"{block.rows} of {self._shape.tokens} rows")

    def stored(self, target: Target, block: Block[Form]) -> Tensor[Form]:
        """The sum of a target without a norm, in cells where one row is left."""
        cells = block.rows == 1 or block.x.form.cells
        return Tensor(
            target.live, block.rows, Form(Encoding.bounded(target.bound, self._columns.size), cells)
        )

    def centre(self, x: Tensor[Form], target: Target) -> list[Operation]:
        """One product of a matrix with all columns, or of cells: one level."""
        name, encoding = f"{target.norm}.centre", x.form.encoding
        form = self._sum(target, encoding)
        matrix = form.matrix(self._columns.size)
        parts = matrix * encoding.scale / form.exit, matrix @ encoding.offset / form.exit
        if x.form.cells:
            cells = CellMap.build(*parts, self._cells, self._cells)
            return [Operation.of(name, (x.live,), target.live, cells.apply)]
        columns = ColumnMap.build([(parts[0], self._columns)], parts[1], self._columns)
        return [Operation.of(name, (x.live,), target.live, columns.apply)]

    def sum(
        self, name: str, x: Tensor[Form], y: Tensor[Form], factor: float
    ) -> tuple[list[Operation], Tensor[Form]]:
        """A product by a number each: one level."""
        first, second = x.form.encoding, y.form.encoding
        if x.form.cells != y.form.cells or x.rows != y.rows or not (first.even and second.even):
            raise refuse_node("columns", name, "a sum of tensors in different forms")
        left, right = first.scale[0], factor * second.scale[0]
        bound = left + abs(right)

        def run(be: Backend, xs: Cts, ys: Cts) -> Cts:
            mine = [be.mul_const(ct, left / bound) for ct in xs]
            return tuple(be.add(a, be.mul_const(b, right / bound)) for a, b in zip(mine, ys, strict=True))

        tensor = Tensor(name, x.rows, Form(Encoding.bounded(bound, self._columns.size), x.form.cells))
        return [Operation.of(name, (x.live, y.live), name, run)], tensor

    def mean(self, x: Tensor[Form], name: str) -> tuple[list[Operation], Tensor[Form]]:
        """Averages columns into cells: log2(tokens) rotations a column, and two levels, or one of what comes
        weighed."""
        if self._shape.lanes > 1:
            raise refuse_node("columns", name, f"a norm behind it and {self._shape.lanes} lanes")
        pooled = MeanCells.build(self._columns, self._cells)

        def average(be: Backend, cts: Cts, mask: Cts) -> Cts:
            return pooled.apply(be, cts if x.form.weighed else tuple(be.mul(ct, mask[0]) for ct in cts))

        operation = Operation.of(name, (x.live, MASK), name, average)
        return [operation], Tensor(name, 1, Form(x.form.encoding, cells=True))

    def norm(self, name: str, n: Norm, rows: int, readers: Readers) -> tuple[list[Operation], Tensor[Form]]:
        """Gamma and beta stay with the numbers' encoding, and what reads them next applies both.

        Weighed by the mask, where only a mean reads the result: the mask multiplies 1/sqrt, one ciphertext,
        and not the answers, which would take a level more.
        """
        cells, weighed = rows == 1, readers.averaged
        norm, encoding = self._norm_of(name, n, cells=cells), Encoding.normalised(*self._weights.norm(n))
        if not weighed:
            self._probe(name, encoding, cells=cells)
        # what `norm.root` leaves 1/sqrt(variance) multiplied by
        factor = norm.entry / norm.size**0.5
        check = norm_check(self._response.check_cell[1], norm.rsqrt, factor) if readers.last else None
        operations = norm_operations(norm, name, check, MASK if weighed else "")
        return operations, Tensor(name, rows, Form(encoding, cells, weighed))

    def function(
        self, x: Tensor[Form], dense: Dense, name: str, kind: str
    ) -> tuple[list[Operation], Tensor[Form]]:
        """Applies a function of a dense map in cells or columns, as x comes. Raises PlanError for a map that
        changes the number of features."""
        spec, (weight, bias) = self._specs.function(name).function, self._weights.dense(dense)
        if dense.outputs != self._columns.size:
            raise refuse_node("columns", name, f"a function of {dense.outputs} features")
        form = Stored.input_of(spec)
        folded = x.form.encoding.fold(weight * form.scale, bias * form.scale + form.offset)
        if x.form.cells:
            mapped: Of = CellMap.build(*folded, self._cells, self._cells).apply
        else:
            mapped = ColumnMap.build([(folded[0], self._columns)], folded[1], self._columns).apply
        encoding = Encoding.bounded(output_bound(spec), self._columns.size)
        tensor = Tensor(name, x.rows, Form(encoding, x.form.cells))
        return function_operations(mapped, spec, name, x.live), tensor

    def answer(self, x: Tensor[Form], dense: Dense | None, mean: str) -> list[Operation]:
        """Lowers the response. A mean classifies every token and then adds up the answers, which are fewer
        than the features."""
        size = self._columns.size
        affine = self._weights.dense(dense) if dense else (np.eye(size), np.zeros(size))
        if mean:
            return self._mean(x, affine, mean)
        form = x.form.encoding, self._response
        if x.form.cells:
            return [answer_operation(CellAnswering.build(*affine, self._cells, *form), x.live)]
        if x.rows != self._shape.tokens:
            raise refuse_node("columns", ANSWER, f"{x.rows} of {self._shape.tokens} rows")
        return [answer_operation(TokenAnswering.build(*affine, self._columns, *form), x.live)]

    def _mean(self, x: Tensor[Form], affine: tuple[Array, Array], mean: str) -> list[Operation]:
        answering = MeanAnswering.build(*affine, self._columns, x.form.encoding, self._response)

        def average(be: Backend, cts: Cts, mask: Cts) -> Cts:
            return answering.mean(be, cts if x.form.weighed else tuple(be.mul(ct, mask[0]) for ct in cts))

        operation = Operation.of(mean, (x.live, MASK), mean, average)
        return [operation, answer_operation(answering, mean)]

    def _attention(self, block: Block[Form], a: Attention, target: Target) -> list[Operation]:
        """Every token."""
        name, x, residual = block.name, block.x.live, block.residual.live
        context, means = f"{name}.context", f"{name}.means"
        attention = BatchAttention.build(
            self._attention_weights(name, a),
            self._columns,
            a.head_size,
            block.x.form.encoding,
            self._attention_specs(block, target),
            *self._splits,
        )

        def attend(be: Backend, x: Cts, mask: Cts, *roots: Cts) -> tuple[Cts, Cts]:
            return attention.attend(be, x, mask[0], *roots)

        reads, normed, roots = (residual, context, means), list[Operation](), tuple[str, ...]()
        if attention.normed:
            normed, roots = attention.normed.operations(name, (x,), attention.variances)
        return [
            *normed,
            Operation.of(f"{name}.attend", (x, MASK, *roots), (context, means), attend),
            Operation.of(f"{name}.project", reads, target.live, attention.project),
        ]

    def _attention_weights(self, name: str, a: Attention) -> AttentionWeights:
        return AttentionWeights.of(self._weights, a, self._shape.tokens, self._specs, name)

    def _first_token(self, block: Block[Form], a: Attention, target: Target) -> list[Operation]:
        """One query for each sequence; the result is in cells."""
        name, x, specs = block.name, block.x.live, self._attention_specs(block, target)
        weights, encoding = self._attention_weights(name, a), block.x.form.encoding
        attention = BatchFirstToken.build(weights, self._columns, self._heads, encoding, specs)
        parts = ("scores", "exponentials", "weighed", "sums", "weights")
        scores, exps, weighed, sums, shares = (f"{name}.{part}" for part in parts)
        chosen = selected(name, x, block.residual.live, attention.select, attention.select)
        normed, roots = list[Operation](), tuple[str, ...]()
        if weights.normed:
            normed, roots = weights.normed.operations(name, (x, chosen.first), attention.variances)
        return [
            chosen.operation,
            *normed,
            Operation.of(f"{name}.scores", (x, chosen.first, *roots), scores, attention.scores),
            exponentials(name, specs.exp, attention.visible),
            Operation.of(f"{name}.weigh", (exps, MASK), (weighed, sums), attention.weigh),
            Operation.of(f"{name}.attend", (weighed, sums), shares, attention.attend),
            Operation.of(f"{name}.project", (x, chosen.back, shares), target.live, attention.project),
        ]

    def _feed_forward(self, block: Block[Form], f: FeedForward, target: Target) -> list[Operation]:
        name, y, encoding = block.name, block.x.live, block.x.form.encoding
        specs, residual = self._specs.function(name), block.residual.live
        gate, weights = Gate.of(specs) if f.gate else None, ForwardWeights.of(self._weights, f)
        form = self._sum(target, block.residual.form.encoding)
        if block.x.form.cells:
            cells = CellForward.build(weights, self._cells, encoding, specs.function, form, gate)
            operations = gated_operations if gate else forward_operations
            return operations(cells, name, y, residual, target.live)
        columns = BatchForward.build(weights, self._columns, encoding, specs.function, form, gate)
        return [Operation.of(name, (y, residual), target.live, columns.apply)]

    def _attention_specs(self, block: Block[Form], target: Target) -> BatchAttentionSpecs:
        s, form = self._specs.attention(block.name), self._sum(target, block.residual.form.encoding)
        return BatchAttentionSpecs(s.exp, s.inverse, s.context, s.attended, form, s.rows)

    def _sum(self, target: Target, residual: Encoding) -> Sum:
        """How a sum is stored: as its only norm takes it, or within its bound."""
        if not target.norm:
            return Sum(target.bound, residual, centred=False)
        s = self._specs.norm(target.norm)
        norm = BatchNorm(s.rsqrt, 0.0, s.centred, self._columns.size, self._shape.lanes)
        return Sum(norm.entry, residual, centred=target.centred)

    def _norm_of(self, name: str, n: Norm, *, cells: bool) -> BatchNorm:
        s = self._specs.norm(name)
        fields = (s.rsqrt, n.epsilon, s.centred, n.size, self._shape.lanes)
        return CellNorm(*fields, self._cells) if cells else BatchNorm(*fields)

    def _probe(self, name: str, encoding: Encoding, *, cells: bool) -> None:
        def first_rows(slots: Sequence[Array]) -> Array:
            return self._cells.unpack(slots)[:, None, : self._cells.size]

        unpack = first_rows if cells else self._columns.unpack
        self._probes[name] = Probe(name, partial(_valued, unpack, encoding), f"{name}.result")


def _valued(unpack: Callable[[Sequence[Array]], Array], encoding: Encoding, slots: Sequence[Array]) -> Array:
    """Decoded ciphertexts -> (sequences, tokens or 1, hidden)."""
    return np.asarray(unpack(slots) * encoding.scale + encoding.offset)
