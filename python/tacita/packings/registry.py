"""The one list of packings as interpreters of graphs. A new one is a folder beside `rows` and `columns`, one
row here, and one in `layouts`, which says what a client has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tacita.blocks.graph import Graph
from tacita.blocks.weights import Weights
from tacita.layouts.columns import BatchShape
from tacita.layouts.registry import Shape
from tacita.layouts.rows import RowsShape
from tacita.packings.base import Lowering
from tacita.packings.coefficients import CoefficientLowering
from tacita.packings.columns.lowering import ColumnLowering
from tacita.packings.multidiagonal.lowering import DiagonalLowering
from tacita.packings.rows.lowering import RowLowering
from tacita.packings.rows.steps import StepLowering
from tacita.packings.specs import CircuitSpecs

Build = Callable[[Graph, Weights, CircuitSpecs, Shape], Lowering[Any]]


def lowering_of(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Lowering[Any]:
    """The blocks of the shape's packing: see `base.Lowering`. Raises ShapeError, PlanError for what it does
    not admit."""
    return LOWERINGS[shape.packing](graph, weights, specs, shape)


def _rows(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Lowering[Any]:
    kind = StepLowering if shape.step else RowLowering
    return kind(graph, weights, specs, RowsShape(shape.slots, shape.tokens))


def _coefficients(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Lowering[Any]:
    return CoefficientLowering(graph, weights, specs, RowsShape(shape.slots, shape.tokens))


def _columns(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Lowering[Any]:
    return ColumnLowering(
        graph, weights, specs, BatchShape(shape.slots, shape.tokens, shape.lanes), shape.rotations
    )


def _multidiagonal(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Lowering[Any]:
    return DiagonalLowering(graph, weights, specs, shape.slots, shape.tokens)


LOWERINGS: Mapping[str, Build] = {
    "rows": _rows,
    "coefficients": _coefficients,
    "multidiagonal": _multidiagonal,
    "columns": _columns,
}
