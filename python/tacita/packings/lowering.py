"""A model's graph -> operations of a packing.

A sum that only a norm reads is never stored as such: what the norm takes from it (its mean) and the scale in
which the norm wants it go into the last linear map of the block before it, at no cost. A sum that others read
too, as in models with norms before their blocks, is stored within its bound, and the norm takes a linear map
of its own. The lowering finds these places; everything that belongs to slots is the packing's
(`shared.lowering.Lowering`).

    attention -> add -> norm             becomes    block(attention, residual, for this norm), norm
    attention -> add -> norm and add     becomes    block(attention, residual, stored), centre, norm
    linear -> function                   becomes    function with the map inside, of one row or of all
    linear -> answer                     becomes    answer with the map inside, of one row or of all
    mean -> linear -> answer             becomes    answer with mean and map inside
    mean -> norm                         becomes    mean, centre, norm of one row
    add of tensors that are there        becomes    their sum, each times a number

Other graphs are refused with a PlanError that names the step.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tacita.blocks.base import EVERYWHERE, Attention, Dense, FeedForward, Norm, Powers
from tacita.blocks.graph import INPUT, Graph, Step, record, widened
from tacita.blocks.shapes import REACH, options
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.errors import PlanError
from tacita.layouts.registry import Shape
from tacita.models.config import LATEST
from tacita.models.registry import Config, forward, nodes
from tacita.packings.base import Block, Circuit, Readers, Target, Tensor, first_row, refuse_node, stages_of
from tacita.packings.coefficients import CoefficientLowering
from tacita.packings.columns.lowering import ColumnLowering
from tacita.packings.multidiagonal.lowering import DiagonalLowering
from tacita.packings.rows.lowering import RowLowering, StepLowering
from tacita.packings.shared.lowering import Lowering
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs, approximated
from tacita.texts.task import NEXT


@dataclass(frozen=True)
class Mapped:
    """A dense map of rows that is not computed yet. mean: the node that gives the one row; empty for rows
    that are there."""

    x: Tensor
    dense: Dense | None
    mean: str = ""


Value = Tensor | Block | Mapped


def lower(graph: Graph, packing: Lowering, specs: CircuitSpecs) -> Circuit:
    """The circuit of a graph. Raises PlanError for a step that the packing lacks,
    ShapeError for sizes it does not admit."""
    walk, kept = _Walk(graph, packing, specs), packing.kept
    for step in graph.steps:
        walk.enter(step)
    stages = stages_of(packing.operations, packing.fixed, frozenset(one.after for one in kept))
    request = packing.request()
    fixed = packing.fixed & set(request.counts) | {one.before for one in kept}
    return Circuit(tuple(stages), request, packing.response(), fixed, packing.probes, kept, packing.fusible)


class _Walk:
    def __init__(self, graph: Graph, packing: Lowering, specs: CircuitSpecs) -> None:
        self._graph, self._packing, self._specs, self._uses = graph, packing, specs, graph.uses()
        self._values: dict[str, Value] = {INPUT: packing.entry()}

    def enter(self, step: Step) -> None:
        """Lowers one step of the graph."""
        handler = getattr(self, f"_{step.op}", None)
        if handler is None:
            raise self._unknown(step)
        if lacking := options(step.node) - self._packing.options:
            raise refuse_node(self._packing.packing, step.name, ", ".join(sorted(lacking)))
        handler(step)

    def _take(self, step: Step) -> None:
        """What reads it looks at the first rows alone."""
        self._values[step.name] = self._value(step, 0)

    def _attention(self, step: Step) -> None:
        x, node = self._tensor(step, 0), typing.cast(Attention, step.node)
        if isinstance(node.weights, Powers) and node.reach != EVERYWHERE:
            raise refuse_node(self._packing.packing, step.name, f"{REACH} of powers")
        if x.rows != self._packing.entry().rows:  # of one row that is left there are no keys
            raise self._unknown(step)
        self._values[step.name] = Block(step.name, node, step.output.shape[0], x, x)

    def _feed_forward(self, step: Step) -> None:
        x, node = self._tensor(step, 0), typing.cast(FeedForward, step.node)
        self._values[step.name] = Block(step.name, node, step.output.shape[0], x, x)

    def _add(self, step: Step) -> None:
        """A block and the tensor that it is added to, in either order and laid out as the block's input is,
        or two tensors that are there."""
        values = [self._value(step, i) for i in (0, 1)]
        if isinstance(values[0], Tensor) and isinstance(values[1], Tensor):
            self._values[step.name] = self._packing.sum(step.name, values[0], values[1], step.factor)
            return
        blocks = [v for v in values if isinstance(v, Block)]
        others = [v for v in values if isinstance(v, Tensor)]
        whole = step.factor == 1.0 and len(blocks) == len(others) == 1
        if not whole or self._uses[blocks[0].name] != 1 or blocks[0].x.rows != others[0].rows:
            raise self._unknown(step)
        block = replace(blocks[0], residual=others[0])
        if self._graph.fused(step):
            self._values[step.name] = block
            return
        takers, zero_mean = self._graph.takers(step), self._zero_mean(step)
        target = Target(step.name, "", self._bound(step, takers), zero_mean, _reader(step, takers, zero_mean))
        self._packing.block(block, target)
        self._values[step.name] = self._packing.stored(target, block)

    def _norm(self, step: Step) -> None:
        """A norm of a sum that is not computed yet, of a tensor that is there, or of a mean.

        `attention -> add -> norm`: the value of the sum is a Block, whose last map now leaves it as this norm
        takes it, centred and in the norm's scale. `norm and add`: the sum is a Tensor that was stored for
        both, so the norm's input is made of it by an operation of its own. `mean -> norm`: the mean is
        computed, and is then such a tensor."""
        value, node = self._value(step, 0), typing.cast(Norm, step.node)
        if isinstance(value, Mapped) and value.mean and value.dense is None:
            value = self._packing.mean(value.x, value.mean)
        target = Target(f"{step.name}.centred", norm=step.name, centred=node.centred)
        if isinstance(value, Tensor):
            self._packing.centre(value, target)
        elif isinstance(value, Block) and step.inputs[0].step != value.name:  # a block with its sum
            self._packing.block(value, target)
        else:
            raise self._unknown(step)
        self._values[step.name] = self._packing.norm(step.name, node, value.rows, self._readers(step))

    def _linear(self, step: Step) -> None:
        x, dense = self._value(step, 0), typing.cast(Dense, step.node)
        if isinstance(x, Mapped) and x.dense is None:
            self._values[step.name] = Mapped(x.x, dense, x.mean)
        elif isinstance(x, Tensor) and x.rows == step.output.shape[0]:
            self._values[step.name] = Mapped(x, dense)
        else:
            raise self._unknown(step)

    def _function(self, step: Step) -> None:
        x = self._value(step, 0)
        if not isinstance(x, Mapped) or x.dense is None or x.mean or self._uses[step.inputs[0].step] != 1:
            raise self._unknown(step)
        self._values[step.name] = self._packing.function(x.x, x.dense, step.name)

    def _mean(self, step: Step) -> None:
        self._values[step.name] = Mapped(self._tensor(step, 0), None, step.name)

    def _answer(self, step: Step) -> None:
        x = self._value(step, 0)
        if isinstance(x, Block):
            raise self._unknown(step)
        mapped = x if isinstance(x, Mapped) else Mapped(x, None)
        if not mapped.mean and mapped.x.rows != step.output.shape[0]:
            raise self._unknown(step)
        self._packing.answer(mapped.x, mapped.dense, mapped.mean)

    def _zero_mean(self, step: Step) -> bool:
        """Whether all that becomes of a sum is read by norms that take its mean off: it may be stored without
        it, and the sums behind it are so for nothing."""
        readers = self._graph.takers(step)
        norms = [reader for reader in readers if reader.op == "norm"]
        centred = all(typing.cast(Norm, reader.node).centred for reader in norms)
        sums = [reader for reader in readers if reader.op == "add" and reader.factor == 1.0]
        return centred and len(norms) + len(sums) == len(readers) and all(map(self._zero_mean, sums))

    def _bound(self, step: Step, readers: list[Step]) -> float:
        """The bound of a stored sum: the largest that calibration saw where its readers take it."""
        bounds = [self._specs.inputs[r.name] for r in readers if r.name in self._specs.inputs]
        if not bounds:
            raise self._unknown(step)
        return max(bounds)

    def _readers(self, step: Step) -> Readers:
        readers = self._graph.readers(step)
        names = [other.name for other in self._graph.steps if other.op == "norm"]
        averaged = {reader.op for reader in readers} == {"mean"}
        return Readers(first_row(readers), averaged, step.name == names[-1])

    def _value(self, step: Step, number: int) -> Value:
        return self._values[step.inputs[number].step]

    def _tensor(self, step: Step, number: int) -> Tensor:
        value = self._value(step, number)
        if not isinstance(value, Tensor) or value.rows != step.inputs[number].shape[0]:  # all, of taken ones
            raise self._unknown(step)
        return value

    def _unknown(self, step: Step) -> PlanError:
        inputs = ", ".join(value.step for value in step.inputs)
        return PlanError(
            f"no packing has the step {step.name} ({step.op} of {inputs}) in this place",
            hint="blocks are lowered in sums with a tensor that is there",
        )


def _reader(step: Step, takers: list[Step], zero_mean: bool) -> str:
    """The one norm that reads a sum, all its rows, where the sum is stored with or without its mean as the
    norm takes it."""
    match [taker for taker in takers if isinstance(taker.node, Norm)]:
        case [Step(node=Norm(centred=centred), inputs=inputs) as norm] if inputs == (step.output,):
            return norm.name if centred == zero_mean else ""
    return ""


# The one list of packings. A new one is a folder beside `rows` and `columns`, one row here, and one in
# `layouts.registry`, which says what a client has to know of it.

LOWERINGS: Mapping[str, Callable[[Graph, Weights, CircuitSpecs, Shape], Lowering]] = {
    "rows": RowLowering,
    "coefficients": CoefficientLowering,
    "multidiagonal": DiagonalLowering,
    "columns": ColumnLowering,
}


def lowering_of(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Lowering:
    """The blocks of the shape's packing. Raises ShapeError, PlanError for what it does not admit."""
    kind = StepLowering if shape.step else LOWERINGS[shape.packing]
    return kind(graph, weights, specs, shape)


# A model, its specs and a shape -> the circuit.


def in_slots(model: Checkpoint) -> Checkpoint:
    """The model as slots hold it: of a decoder with its rows in reverse (`blocks.sequence`)."""
    config: Any = model.config
    if config.task != NEXT or config.backwards:
        return model
    return replace(model, config=replace(config, pooling=LATEST))


def graph_of(config: Config, tokens: int) -> Graph:
    """The model's graph, for hidden states of so many tokens."""
    return record(lambda b, x: forward(b, config, x), tokens, config.hidden)


def inputs_of_sums(config: Config) -> dict[str, str]:
    """Nodes that read a sum which a circuit stores -> the reference's record of what they take.

    A model whose norms follow its blocks has none.
    """
    steps = graph_of(config, 2).readers_of_sums()
    return {step.name: f"{step.name}.{'sum' if step.op == 'norm' else 'input'}" for step in steps}


def build(model: Checkpoint, specs: CircuitSpecs, shape: Shape) -> Circuit:
    """The circuit of a model in a packing.

    Raises ShapeError for sizes or lanes that it does not admit, PlanError where the specs lack a node, or the
    packing a block.
    """
    check_specs(model, specs)
    check_softmax(specs, shape)
    check_refreshes(specs, shape)
    graph = widened(graph_of(model.config, 1 if shape.step else shape.tokens), model.config.hidden)
    alone = lower(graph, lowering_of(graph, Weights(model.tensors), specs, shape.alone), specs)
    return alone.beside(shape.beside)


def check_softmax(specs: CircuitSpecs, shape: Shape) -> None:
    """Raises PlanError for an attention whose softmax is none that the packing has."""
    rules = shape.rules
    for name, node in specs.nodes.items():
        rows = node.rows if isinstance(node, AttentionSpecs) else None
        if rows and not rules.takes(linear=rows.is_linear):
            message = f"{name}: packing {shape.packing} takes {rules.row_estimates} row estimates alone"
            raise PlanError(message, hint="calibrate for this packing")


def check_refreshes(specs: CircuitSpecs, shape: Shape) -> None:
    """Raises PlanError for a function by a bootstrap where the packing has only polynomials."""
    for name, node in specs.nodes.items():
        if isinstance(node, FunctionSpecs) and node.function.refreshes and not shape.rules.refreshes:
            message = f"{name}: packing {shape.packing} computes no function by a bootstrap"
            raise PlanError(message, hint="fit other functions")


def check_specs(checkpoint: Checkpoint, specs: CircuitSpecs) -> None:
    """Raises PlanError unless the specs are of exactly the checkpoint's nodes."""
    wanted = approximated(nodes(checkpoint.config))
    tags = {name: node.tag for name, node in specs.nodes.items()}
    if tags != wanted:
        other = sorted({name for name, _ in wanted.items() ^ tags.items()})
        raise PlanError(
            f"specs of {len(tags)} nodes, model of {len(wanted)}: they differ in {other[0]}",
            hint="calibrate this model",
        )
