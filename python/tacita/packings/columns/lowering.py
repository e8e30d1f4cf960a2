"""The blocks of a batch as operations: interleaved columns, and cells once only the first token is left.

The request is `hidden` and `mask` (1/length at real tokens). Where only one row of an attention is asked for,
it and all that follows runs on the first token of every sequence, in cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacita.approx.comparison import Comparison
from tacita.blocks.base import FeedForward, Norm
from tacita.blocks.graph import Graph, Step
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import refuse
from tacita.layouts.columns import (
    Array,
    BatchAnswer,
    BatchShape,
    Cells,
    Columns,
    batch_request,
)
from tacita.layouts.registry import Shape
from tacita.layouts.runs import MASK, Request
from tacita.packings.base import Block, Form, Operation, Readers, Target, Tensor, heads_of, refuse_node
from tacita.packings.columns.attention import BatchAttention, Split
from tacita.packings.columns.cells import (
    BatchFirstToken,
    CellMap,
    batch_answering,
    cell_linear,
    mean_answering,
    mean_cells,
)
from tacita.packings.columns.linear import BatchForward, BatchNorm, ColumnMap, linear_of
from tacita.packings.encoding import Encoding, WeightBias, apply, apply_unit, output_bound
from tacita.packings.operations import Answering, softmax_operations
from tacita.packings.shared.choice import Choice, tournament, unsigned
from tacita.packings.shared.lowering import Lowering
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionPlan
from tacita.slots.base import Backend, Ct, Cts


class ColumnLowering(Lowering):
    """The blocks of a batch in columns and cells. graph: of the model, at the shape's tokens.

    Raises ShapeError for lanes that the model does not admit.
    """

    packing = "columns"

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> None:
        batch = BatchShape(shape.slots, shape.tokens, shape.lanes)
        queries = {step.output.shape[0] for step in graph.steps if step.op == "attention"}
        if batch.lanes > 1 and 1 in queries:
            raise refuse("interleaved", f"{shape.lanes} lanes with an answer read from [CLS]", "use one lane")
        heads, head_size = heads_of(graph, "columns")
        self._shape, self._columns = batch, Columns.by_heads(batch, heads, head_size)
        self._cells = Cells(batch, heads * head_size)
        layouts = linear_of(self._columns), cell_linear(self._cells)
        super().__init__(graph, weights, specs, (shape.slots, shape.tokens), *layouts)
        double = Split.double(shape.tokens)
        self._splits = (Split.single(shape.tokens) if shape.rotations == "single" else double, double)
        self._fused: dict[str, tuple[BatchAttention, tuple[str, str, str]]] = {}
        rows, outputs = graph.steps[-1].output.shape
        chosen = specs.comparison is not None
        self._batch = BatchAnswer(batch, outputs, 1.0 if chosen else specs.answer, rows, chosen)

    def request(self) -> Request:
        """The layout of the request."""
        return batch_request(self._columns, self._specs.entry)

    @property
    def _check_places(self) -> Array:
        return self._batch.check_cell[1]

    def _norm_form(self, rows: int, readers: Readers) -> Form:
        """Weighed by the mask, where only a mean reads the result: the mask multiplies 1/sqrt, one
        ciphertext, and not the answers, which would take a level more."""
        return Form(Encoding(1.0), first=rows == 1, weighed=readers.averaged)

    def _norm(self, name: str, n: Norm, form: Form) -> tuple[BatchNorm, Encoding]:
        """Gamma and beta stay with the numbers' encoding, and what reads them next applies both."""
        entry = self._norm_entry(name, first=form.first)
        fields = (self._specs.norm(name).rsqrt, n.epsilon, n.size, entry, self._shape.lanes)
        gamma, beta = self._weights.norm(n)  # the result is divided by what bounds it whatever the input
        return self._linear_of(form).norm(*fields), Encoding(gamma * np.sqrt(n.size), beta)

    def _averaged(self, x: Tensor, name: str) -> Operation:
        """log2(tokens) rotations a column, and two levels, or one of what comes weighed."""
        if self._shape.lanes > 1:
            raise refuse_node("columns", name, f"a norm behind it and {self._shape.lanes} lanes")
        return _averaging(x, name, mean_cells(self._columns, self._cells))

    def _mean_answer(self, x: Tensor, dense: WeightBias | None, name: str) -> tuple[Operation, Answering]:
        """A mean classifies every token and then adds up the answers, which are fewer than the features."""
        affine = dense or self._identity
        mean, answering = mean_answering(*affine, self._columns, x.form.encoding, self._batch)
        return _averaging(x, name, mean), answering

    def _first_answer(self, x: Tensor, dense: WeightBias | None) -> Answering:
        matrix, offset = x.form.encoding.fold(*(dense or self._identity))
        both = np.concatenate([matrix, matrix, np.zeros((1, self._cells.size))]) / self._batch.bound
        shift = np.concatenate([offset, offset, [0.0]]) / self._batch.bound
        return batch_answering(self._batch, CellMap.build(both, shift, self._cells, self._batch.cells))

    def _choice(self, x: Tensor, dense: WeightBias, comparison: Comparison) -> Choice:
        """Logits are in cells, and nothing repeats. So both copies of the response are the same ciphertexts,
        and agree whatever they hold: what else is checked says decision 104."""
        shape, words = self._shape, self._batch.size
        stored = unsigned(*x.form.encoding.fold(*dense), self._specs.answer)
        logits = CellMap.build(*stored, self._cells, Cells(shape, words))

        def respond(be: Backend, chosen: Cts, check: Ct) -> Cts:
            return *chosen, *chosen, check

        rounds = tournament(shape.tokens, shape.tokens, words)
        return Choice(self._batch.response, logits.apply, rounds, comparison, respond, shape.step)

    def _token_answer(self, x: Tensor, dense: WeightBias | None) -> Answering:
        """No rotation but those of lanes."""
        sides = x.form.encoding.fold(*(dense or self._identity))
        both, twice = (np.concatenate([side, side]) / self._batch.bound for side in sides)
        mapped = ColumnMap.build([(both, self._columns)], twice, self._batch.columns)
        return batch_answering(self._batch, mapped)

    def _unpack(self, form: Form, slots: Sequence[Array]) -> Array:
        if form.first:
            return self._cells.unpack(slots)[:, None, : self._cells.size]
        return self._source_of(form).unpack(slots)

    def _source_of(self, form: Form) -> Columns:
        return FusedNorm.columns(self._columns) if form.encoding.mapped else self._columns

    def _all_tokens(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x, residual = block.name, block.x.live, block.residual.live
        context, means = f"{name}.context", f"{name}.means"
        attention = BatchAttention(plan, self._columns, *self._splits)

        def attend(be: Backend, x: Cts, mask: Cts, *roots: Cts) -> tuple[Cts, Cts]:
            return attention.attend(be, x, mask[0], *roots)

        normed, roots = plan.roots(name, (x,), attention.variances)
        attended = Operation.of(f"{name}.attend", (x, MASK, *roots), (context, means), attend)
        operations = [*normed, replace(attended, refreshes=bool(plan.specs.rounds))]
        reads = residual, context, means
        if forward := self._forward_of(target.norm):
            self.fusible[target.norm] = f"{name}.attend", forward
            if self._specs.norm(target.norm).fused:
                self._fused[target.norm] = attention, reads
                return operations
        return [*operations, Operation.of(f"{name}.project", reads, target.live, attention.project)]

    def _forward_of(self, name: str) -> str:
        """The feed-forward that alone reads this node, with its residual; empty where others do."""
        readers = [r for step in self._graph.steps if step.name == name for r in self._graph.readers(step)]
        match sorted(readers, key=lambda reader: reader.op):
            case [Step(op="add") as total, Step(op="feed_forward") as forward]:
                return forward.name if forward.output in total.inputs else ""
        return ""

    def norm(self, name: str, n: Norm, rows: int, readers: Readers) -> Tensor:
        """One that waits for its attention is fused with it (`FusedNorm`)."""
        if name not in self._fused:
            return super().norm(name, n, rows, readers)
        (attention, reads), spread = self._fused[name], f"{name}.variance"
        fused = FusedNorm(attention, self._norm(name, n, Form(Encoding(1.0)))[0])
        form = Form(fused.encoding(*self._weights.norm(n)))
        self._probe(name, form)
        self.operations += [
            Operation.of(spread, reads, spread, fused.variance),
            Operation.of(name, (*reads, spread), name, fused.normalise),
        ]
        return Tensor(name, rows, form)

    def _first_token(self, block: Block, target: Target, plan: AttentionPlan) -> list[Operation]:
        """One query for each sequence; the result is in cells."""
        name, x, attention = block.name, block.x.live, BatchFirstToken(plan, self._columns)
        parts = ("weighed", "sums", "weights")
        weighed, sums, shares = (f"{name}.{part}" for part in parts)
        operations, back = attention.begin(name, x, block.residual.live)
        softmax, mixed = softmax_operations(name, plan.specs, attention.sums, attention.visible)
        return [
            *operations,
            *softmax,
            Operation.of(f"{name}.weigh", (mixed, MASK), (weighed, sums), attention.weigh),
            Operation.of(f"{name}.attend", (weighed, sums), shares, attention.attend),
            Operation.of(f"{name}.project", (x, back, shares), target.live, attention.project),
        ]

    def _feed_forward(self, block: Block, f: FeedForward, target: Target) -> list[Operation]:
        """In columns piece by piece, in one stage: the inner tensor is never there as a whole."""
        if block.x.form.first:
            return super()._feed_forward(block, f, target)
        plan, source = self._forward_plan(block, f, target), self._source_of(block.x.form)
        columns = BatchForward.build(plan, source, self._columns)
        reads = block.x.live, block.residual.live
        return [Operation.of(block.name, reads, target.live, columns.apply)]


def _averaging(x: Tensor, name: str, mean: Callable[[Backend, Cts], Cts]) -> Operation:
    """The mean of the columns times the mask, by which they may come already."""

    def average(be: Backend, cts: Cts, mask: Cts) -> Cts:
        return mean(be, cts if x.form.weighed else tuple(be.mul(ct, mask[0]) for ct in cts))

    return Operation.of(name, (x.live, MASK), name, average)


@dataclass(frozen=True, eq=False)
class FusedNorm:
    """The norm of an attention's sum, W_o context + x, without a level of its own nor one of W_o: its root
    multiplies attended values and x, and whatever reads the result next has W_o in its own map.

    The sum itself is made for its variance alone, at low levels. Beside a norm as it stands, an input of the
    next map has two columns for a feature and one more, and a column has three products for two.
    """

    attention: BatchAttention
    norm: BatchNorm

    @staticmethod
    def columns(columns: Columns) -> Columns:
        """Where the result is: attended values, then x, then the root, which stands in every lane."""
        index, size, shape = columns.index, columns.size, columns.shape
        root = 2 * size + np.arange(shape.lanes)
        return Columns(shape, np.concatenate([index, index + size, root[None]]))

    def encoding(self, gamma: Array, beta: Array) -> Encoding:
        """What `normalise` leaves, as values of the norm's result."""
        plan = self.attention.plan
        matrix, offset = plan.projection(plan.specs.attended)
        back = plan.output.fold_residual(len(offset))
        unused = np.zeros((len(offset), self.norm.lanes - 1))
        parts = np.concatenate([matrix, back, offset[:, None], unused], axis=1)
        factor = self.norm.entry * output_bound(self.norm.rsqrt)
        return Encoding(parts * (gamma * factor)[:, None], beta)

    def variance(self, be: Backend, x: Cts, context: Cts, means: Cts) -> Cts:
        """Variance of the sum, stored for rsqrt. One level below `BatchAttention.project`, two with lanes."""
        return (self.norm.variance(be, self.attention.project(be, x, context, means)),)

    def normalise(self, be: Backend, x: Cts, context: Cts, means: Cts, spread: Cts) -> Cts:
        """The columns of `encoding`. Levels: 1 below context and x, 2 and those of rsqrt and the inverse
        below the others."""
        root, specs = apply_unit(be, spread[0], self.norm.rsqrt), self.attention.plan.specs
        inverses = [apply(be, m, specs.inverse, specs.context / specs.attended) for m in means]
        divided = self.attention.divided(be, context, [be.mul(inverse, root) for inverse in inverses])
        return *divided, *(be.mul(ct, root) for ct in x), root
