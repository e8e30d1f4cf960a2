"""A model, its specs and a shape -> the circuit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacita.blocks.graph import Graph, record
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.errors import PlanError
from tacita.models.base import LATEST, NEXT
from tacita.models.registry import Config, forward, nodes
from tacita.packings.base import Circuit
from tacita.packings.lowering import lower
from tacita.packings.registry import parts_of
from tacita.packings.rows.steps.parts import StepParts
from tacita.packings.shape import Shape
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs, approximated
from tacita.packings.widened import widened


def in_slots(model: Checkpoint) -> Checkpoint:
    """The model as slots hold it: of a decoder with its rows in reverse (`blocks.sequence.latest`)."""
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
    found = graph_of(config, 2).readers_of_sums()
    return {step.name: f"{step.name}.{'sum' if step.op == 'norm' else 'input'}" for step in found}


def build(model: Checkpoint, specs: CircuitSpecs, shape: Shape) -> Circuit:
    """The circuit of a model in a packing.

    Raises ShapeError for sizes or lanes that it does not admit, PlanError where the specs lack a node, or the
    packing a block.
    """
    check_specs(model, specs)
    check_softmax(specs, shape)
    check_refreshes(specs, shape)
    check_choice(specs, shape)
    graph = widened(graph_of(model.config, 1 if shape.step else shape.tokens), model.config.hidden)
    parts = parts_of(graph, Weights(model.tensors), specs, shape)
    return lower(graph, parts, specs, parts.kept if isinstance(parts, StepParts) else ())


def check_softmax(specs: CircuitSpecs, shape: Shape) -> None:
    """Raises PlanError for an attention whose softmax is none that the packing has."""
    for name in (name for name, node in specs.nodes.items() if isinstance(node, AttentionSpecs)):
        found, rules = specs.attention(name), shape.rules
        if found.rows and not rules.takes(linear=found.rows.is_linear):
            message = f"{name}: packing {shape.packing} takes {rules.row_estimates} row estimates alone"
            raise PlanError(message, hint="calibrate for this packing")
        if found.first and not rules.two_phases:
            message = f"{name}: packing {shape.packing} finds no softmax in two phases"
            raise PlanError(message, hint="fit other functions")


def check_refreshes(specs: CircuitSpecs, shape: Shape) -> None:
    """Raises PlanError for a function by a bootstrap where the packing has only polynomials."""
    functions = {name: node for name, node in specs.nodes.items() if isinstance(node, FunctionSpecs)}
    for name in (name for name, node in functions.items() if node.function.refreshes):
        if not shape.rules.refreshes:
            message = f"{name}: packing {shape.packing} computes no function by a bootstrap"
            raise PlanError(message, hint="fit other functions")


def check_choice(specs: CircuitSpecs, shape: Shape) -> None:
    """Raises PlanError for the likeliest word alone where the packing cannot find it."""
    if specs.comparison and not shape.rules.refreshes:
        message = f"packing {shape.packing} compares no logits: it reveals all of them"
        raise PlanError(message, hint="--scheme thor or leaf, one text a request")


def check_specs(checkpoint: Checkpoint, specs: CircuitSpecs) -> None:
    """Raises PlanError unless the specs are of exactly the checkpoint's nodes."""
    wanted = approximated(nodes(checkpoint.config))
    given = {name: node.tag for name, node in specs.nodes.items()}
    if given != wanted:
        other = sorted({name for name, _ in wanted.items() ^ given.items()})
        raise PlanError(
            f"specs of {len(given)} nodes, model of {len(wanted)}: they differ in {other[0]}",
            hint="calibrate this model",
        )
