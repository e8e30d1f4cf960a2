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
from tacita.packings.base import Parts
from tacita.packings.coefficients import CoefficientParts
from tacita.packings.columns.parts import ColumnParts
from tacita.packings.multidiagonal.parts import DiagonalParts
from tacita.packings.rows.parts import RowParts
from tacita.packings.rows.steps import StepParts
from tacita.packings.specs import CircuitSpecs

Build = Callable[[Graph, Weights, CircuitSpecs, Shape], Parts[Any]]


def parts_of(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Parts[Any]:
    """The blocks of the shape's packing: see `base.Parts`. Raises ShapeError, PlanError for what it does not
    admit."""
    return PARTS[shape.packing](graph, weights, specs, shape)


def _rows(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Parts[Any]:
    parts = StepParts if shape.step else RowParts
    return parts(graph, weights, specs, RowsShape(shape.slots, shape.tokens))


def _coefficients(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Parts[Any]:
    return CoefficientParts(graph, weights, specs, RowsShape(shape.slots, shape.tokens))


def _columns(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Parts[Any]:
    return ColumnParts(
        graph, weights, specs, BatchShape(shape.slots, shape.tokens, shape.lanes), shape.rotations
    )


def _multidiagonal(graph: Graph, weights: Weights, specs: CircuitSpecs, shape: Shape) -> Parts[Any]:
    return DiagonalParts(graph, weights, specs, shape.slots, shape.tokens)


PARTS: Mapping[str, Build] = {
    "rows": _rows,
    "coefficients": _coefficients,
    "multidiagonal": _multidiagonal,
    "columns": _columns,
}
