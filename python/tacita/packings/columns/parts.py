"""The blocks of a batch as operations: interleaved columns, and cells once only the first token is left.

The request is `hidden` and `mask` (1/length at real tokens). Where only one row of an attention is asked for,
it and all that follows runs on the first token of every sequence, in cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tacita.blocks.base import Attention, Dense, FeedForward, Norm
from tacita.blocks.graph import Graph
from tacita.blocks.weights import Weights
from tacita.errors import PlanError
from tacita.packings.base import Block, Held, Operation, Probe, Readers, Target, refuse_node
from tacita.packings.columns.answer import CellAnswering, MeanAnswering, norm_check
from tacita.packings.columns.attention import BatchAttention, BatchAttentionSpecs, Split
from tacita.packings.columns.cells.cells import CellMap
from tacita.packings.columns.cells.first_token import BatchFirstToken, CellForward, CellNorm
from tacita.packings.columns.cells.pooler import CellPooler
from tacita.packings.columns.feed_forward import BatchForward
from tacita.packings.columns.layout import ROTATIONS, Array, BatchShape, Cells, Columns
from tacita.packings.columns.linear import ColumnMap, Meaning, Sum
from tacita.packings.columns.norm import BatchNorm
from tacita.packings.columns.request import HIDDEN, MASK, BatchRequest
from tacita.packings.columns.response import BatchResponse
from tacita.packings.sizes import refuse
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionWeights
from tacita.slots.base import Backend
from tacita.slots.stage import Live

CHECK, ANSWER = "check", "answer"


@dataclass(frozen=True, eq=False)
class Form:
    """meaning: of stored numbers, by feature. cells: in cells, the first token alone; else in columns.

    weighed: stored numbers come times the mask, for a mean.
    """

    meaning: Meaning
    cells: bool = False
    weighed: bool = False


class ColumnParts:
    """See `packings.base.Parts`. graph: of the model, at the shape's tokens. rotations: one of `ROTATIONS`.

    Raises ShapeError for lanes that the model does not admit, PlanError for an unknown way to rotate.
    """

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
        asked = {step.output.shape[0] for step in graph.steps if step.op == "attention"}
        if shape.lanes > 1 and 1 in asked:
            raise refuse("interleaved", f"{shape.lanes} lanes with an answer read from [CLS]", "use one lane")
        heads, head_size = _heads(graph)
        self._weights, self._specs, self._shape = weights, specs, shape
        self._columns = Columns.by_heads(shape, heads, head_size)
        self._cells = Cells(shape, heads * head_size)
        double = Split.double(shape.tokens)
        self._splits = (Split.single(shape.tokens) if rotations == "single" else double, double)
        self._heads, self._head_size = heads, head_size
        self._response = BatchResponse(
            shape.slots, shape.tokens, shape.lanes, graph.steps[-1].output.shape[1], specs.answer
        )
        self._probes: dict[str, Probe] = {}

    @property
    def fixed(self) -> frozenset[str]:
        """The mask."""
        return frozenset({MASK})

    def entry(self) -> Held[Form]:
        """See the contract."""
        meaning = Meaning.bounded(self._specs.entry, self._columns.size)
        return Held(HIDDEN, self._shape.tokens, Form(meaning))

    def request(self) -> BatchRequest:
        """See the contract."""
        shape = self._shape
        return BatchRequest(
            shape.slots, shape.tokens, shape.lanes, self._heads, self._head_size, self._specs.entry
        )

    def response(self) -> BatchResponse:
        """See the contract."""
        return self._response

    def probes(self) -> Mapping[str, Probe]:
        """See the contract."""
        return self._probes

    def block(self, block: Block[Form], target: Target) -> list[Operation]:
        """See the contract."""
        if isinstance(block.node, FeedForward):
            return self._feed_forward(block, block.node, target)
        if block.rows == self._shape.tokens:
            return self._attention(block, block.node, target)
        if block.rows == 1:
            return self._first_token(block, block.node, target)
        raise refuse_node("columns", block.name, f"{block.rows} of {self._shape.tokens} rows")

    def stored(self, target: Target, block: Block[Form]) -> Held[Form]:
        """See the contract."""
        cells = block.rows == 1 or block.x.form.cells
        return Held(target.live, block.rows, Form(Meaning.bounded(target.bound, self._columns.size), cells))

    def centre(self, x: Held[Form], norm: str) -> list[Operation]:
        """One product of a matrix with all columns, or of cells: one level."""
        target, meaning = f"{norm}.centred", x.form.meaning
        form = self._sum(Target(target, norm), meaning)
        matrix = form.matrix(self._columns.size)
        parts = matrix * meaning.scale / form.exit, matrix @ meaning.offset / form.exit
        if x.form.cells:
            cells = CellMap.build(*parts, self._cells, self._cells)
            return [
                Operation(
                    f"{norm}.centre", (x.live,), lambda be, live: {target: cells.apply(be, live[x.live])}
                )
            ]
        columns = ColumnMap.build([(parts[0], self._columns)], parts[1], self._columns)
        return [
            Operation(f"{norm}.centre", (x.live,), lambda be, live: {target: columns.apply(be, live[x.live])})
        ]

    def norm(self, name: str, n: Norm, rows: int, readers: Readers) -> tuple[list[Operation], Held[Form]]:
        """Gamma and beta stay with the numbers' meaning, and what reads them next applies both.

        Weighed by the mask, where only a mean reads the result: the mask multiplies 1/sqrt, one ciphertext,
        and not the answers, which would take a level more.
        """
        cells, weighed = rows == 1, readers.averaged
        norm, centred, spread = self._norm_of(name, n), f"{name}.centred", f"{name}.variance"
        on_cells = CellNorm(norm, self._cells)

        def variance(be: Backend, live: Live) -> Live:
            return {spread: ((on_cells if cells else norm).variance(be, live[centred]),)}

        def normalise(be: Backend, live: Live) -> Live:
            root = norm.root(be, live[spread][0])
            factor = be.mul(root, live[MASK][0]) if weighed else root
            return {name: norm.normalise(be, live[centred], factor)} | (
                check(be, live, root) if readers.last else {}
            )

        def check(be: Backend, live: Live, root: object) -> Live:
            top, cell = norm.entry / norm.size**0.5, self._response.check_cell[1]
            return {CHECK: (norm_check(be, live[spread][0], root, norm.rsqrt, top, cell),)}

        meaning = Meaning.normalised(*self._weights.affine(n.name))
        if not weighed:
            self._probe(name, meaning, cells=cells)
        operations = [Operation(spread, (centred,), variance), Operation(name, (centred, spread), normalise)]
        return operations, Held(name, rows, Form(meaning, cells, weighed))

    def function(
        self, x: Held[Form], dense: Dense, name: str, kind: str
    ) -> tuple[list[Operation], Held[Form]]:
        """In cells, whatever the function: one polynomial for all sequences."""
        spec, argument = self._specs.function(name).function, f"{name}.argument"
        pooler = CellPooler.build(*self._weights.dense(dense), self._in_cells(x, name), x.form.meaning, spec)

        def apply(be: Backend, live: Live) -> Live:
            return {argument: pooler.dense.apply(be, live[x.live])}

        def activate(be: Backend, live: Live) -> Live:
            return {name: pooler.activate(be, live[argument])}

        operations = [Operation(argument, (x.live,), apply), Operation(name, (argument,), activate)]
        return operations, Held(name, 1, Form(pooler.exit, cells=True))

    def answer(self, x: Held[Form], dense: Dense | None, mean: str) -> list[Operation]:
        """See the contract; a mean classifies every token and adds the answers up, which are fewer than
        features."""
        size = self._columns.size
        affine = self._weights.dense(dense) if dense else (np.eye(size), np.zeros(size))
        if mean:
            return self._mean(x, affine, mean)
        answering = CellAnswering.build(*affine, self._in_cells(x, ANSWER), x.form.meaning, self._response)
        return [self._answer(answering, x.live)]

    def _mean(self, x: Held[Form], affine: tuple[Array, Array], mean: str) -> list[Operation]:
        answering = MeanAnswering.build(*affine, self._columns, x.form.meaning, self._response)

        def average(be: Backend, live: Live) -> Live:
            weighed = live[x.live] if x.form.weighed else [be.mul(ct, live[MASK][0]) for ct in live[x.live]]
            return {mean: answering.mean(be, tuple(weighed))}

        return [Operation(mean, (x.live,), average), self._answer(answering, mean)]

    def _answer(self, answering: CellAnswering | MeanAnswering, pooled: str) -> Operation:
        def answer(be: Backend, live: Live) -> Live:
            return {ANSWER: answering.apply(be, live[pooled], live[CHECK][0])}

        return Operation(ANSWER, (pooled, CHECK), answer)

    def _attention(self, block: Block[Form], a: Attention, target: Target) -> list[Operation]:
        """Every token."""
        name, x, residual = block.name, block.x.live, block.residual.live
        context, means = f"{name}.context", f"{name}.means"
        attention = BatchAttention.build(
            AttentionWeights.of(self._weights, a),
            self._columns,
            a.head_size,
            block.x.form.meaning,
            self._attention_specs(block, target),
            *self._splits,
        )

        def attend(be: Backend, live: Live) -> Live:
            found = attention.attend(be, live[x], live[MASK][0])
            return {context: found[0], means: found[1]}

        def project(be: Backend, live: Live) -> Live:
            return {target.live: attention.project(be, live[residual], live[context], live[means])}

        reads = (residual, context, means)
        return [Operation(f"{name}.attend", (x,), attend), Operation(f"{name}.project", reads, project)]

    def _first_token(self, block: Block[Form], a: Attention, target: Target) -> list[Operation]:
        """One query for each sequence; the result is in cells."""
        name, x, residual = block.name, block.x.live, block.residual.live
        specs = self._attention_specs(block, target)
        weights, meaning = AttentionWeights.of(self._weights, a), block.x.form.meaning
        attention = BatchFirstToken.build(weights, self._columns, self._heads, meaning, specs)
        parts = ("first", "scores", "exponentials", "weighed", "sums", "weights")
        first, scores, exponentials, weighed, sums, shares = (f"{name}.{part}" for part in parts)
        back = first if residual == x else f"{name}.residual"

        def select(be: Backend, live: Live) -> Live:
            found = {first: attention.select(be, live[x])}
            return found if back == first else found | {back: attention.select(be, live[residual])}

        def score(be: Backend, live: Live) -> Live:
            return {scores: attention.scores(be, live[x], live[first])}

        def exponentiate(be: Backend, live: Live) -> Live:
            return {exponentials: attention.exponentials(be, live[scores])}

        def weigh(be: Backend, live: Live) -> Live:
            found = attention.weigh(be, live[exponentials], live[MASK][0])
            return {weighed: found[0], sums: found[1]}

        def attend(be: Backend, live: Live) -> Live:
            return {shares: attention.attend(be, live[weighed], live[sums])}

        def project(be: Backend, live: Live) -> Live:
            return {target.live: attention.project(be, live[x], live[back], live[shares])}

        return [
            Operation(f"{name}.select", (x, residual), select),
            Operation(f"{name}.scores", (x, first), score),
            Operation(f"{name}.exp", (scores,), exponentiate),
            Operation(f"{name}.weigh", (exponentials,), weigh),
            Operation(f"{name}.attend", (weighed, sums), attend),
            Operation(f"{name}.project", (x, back, shares), project),
        ]

    def _feed_forward(self, block: Block[Form], f: FeedForward, target: Target) -> list[Operation]:
        name, y, meaning = block.name, block.x.live, block.x.form.meaning
        activation, residual = self._specs.function(name).function, block.residual.live
        weights = (*self._weights.dense(f.wide), *self._weights.dense(f.narrow))
        form = self._sum(target, block.residual.form.meaning)
        if block.x.form.cells:
            cells = CellForward.build(weights, self._cells, meaning, activation, form)
            return cell_operations(cells, name, (y, residual, target.live))
        columns = BatchForward.build(weights, self._columns, meaning, activation, form)

        def run(be: Backend, live: Live) -> Live:
            return {target.live: columns.apply(be, live[y], live[residual])}

        return [Operation(name, (y, residual), run)]

    def _attention_specs(self, block: Block[Form], target: Target) -> BatchAttentionSpecs:
        s, form = self._specs.attention(block.name), self._sum(target, block.residual.form.meaning)
        return BatchAttentionSpecs(s.exp, s.inverse, s.context, s.attended, form, s.rows)

    def _sum(self, target: Target, residual: Meaning) -> Sum:
        """How a sum is stored: as its only norm takes it, or within its bound."""
        if not target.norm:
            return Sum(target.bound, residual, centred=False)
        s = self._specs.norm(target.norm)
        norm = BatchNorm(s.rsqrt, 0.0, s.centred, self._columns.size, self._shape.lanes)
        return Sum(norm.entry, residual)

    def _norm_of(self, name: str, n: Norm) -> BatchNorm:
        s = self._specs.norm(name)
        return BatchNorm(s.rsqrt, n.epsilon, s.centred, n.size, self._shape.lanes)

    def _in_cells(self, x: Held[Form], name: str) -> Cells:
        if not x.form.cells:
            raise refuse_node("columns", name, "one row of a tensor that is not in cells")
        return self._cells

    def _probe(self, name: str, meaning: Meaning, *, cells: bool) -> None:
        def first_rows(slots: Sequence[Array]) -> Array:
            return self._cells.unpack(slots)[:, None, : self._cells.size]

        unpack = first_rows if cells else self._columns.unpack
        self._probes[name] = Probe(name, partial(_valued, unpack, meaning), f"{name}.result")


def cell_operations(forward: CellForward, name: str, tensors: tuple[str, str, str]) -> list[Operation]:
    """The feed-forward block as three stages: its inner tensor may be refreshed between them.

    tensors: names of the input, the residual and the result.
    """
    y, residual, target = tensors
    inner, active = f"{name}.inner", f"{name}.active"

    def expand(be: Backend, live: Live) -> Live:
        return {inner: forward.expand(be, live[y])}

    def activate(be: Backend, live: Live) -> Live:
        return {active: forward.activate(be, live[inner])}

    def contract(be: Backend, live: Live) -> Live:
        return {target: forward.contract(be, live[residual], live[active])}

    return [
        Operation(f"{name}.expand", (y,), expand),
        Operation(f"{name}.activate", (inner,), activate),
        Operation(f"{name}.contract", (residual, active), contract),
    ]


def _heads(graph: Graph) -> tuple[int, int]:
    """(heads, head size) of all attentions. Raises PlanError where they differ, or there is none."""
    nodes = [step.node for step in graph.steps if isinstance(step.node, Attention)]
    found = {(a.heads, a.head_size) for a in nodes}
    if len(found) != 1:
        raise PlanError(
            f"columns of attentions with (heads, head size) {sorted(found)}", hint="one kind is needed"
        )
    return found.pop()


def _valued(unpack: Callable[[Sequence[Array]], Array], meaning: Meaning, slots: Sequence[Array]) -> Array:
    """Decoded ciphertexts -> (sequences, tokens or 1, hidden)."""
    return np.asarray(unpack(slots) * meaning.scale + meaning.offset)
