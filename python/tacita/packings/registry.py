"""The one list of packings. A new one is a folder beside `rows` and `columns`, and one row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacita.blocks.graph import Graph
from tacita.blocks.weights import Weights
from tacita.packings.base import Parts
from tacita.packings.columns.layout import BatchShape
from tacita.packings.columns.parts import ROTATIONS, ColumnParts
from tacita.packings.rows.layout import RowsShape
from tacita.packings.rows.parts import RowParts
from tacita.packings.specs import CircuitSpecs


@dataclass(frozen=True)
class Packing:
    """rotations: ways to rotate in attention. lanes: to choose from, the most first.

    row_estimates: whether attention may take an estimate of each row from its scores. check(slots, tokens,
    lanes) raises ShapeError; texts(slots, tokens, lanes) is the size of a request. parts(graph, weights,
    specs, (slots, tokens, lanes), rotations): see `base.Parts`.
    """

    name: str
    rotations: tuple[str, ...]
    lanes: tuple[int, ...]
    row_estimates: bool
    check: Callable[[int, int, int], object]
    texts: Callable[[int, int, int], int]
    parts: Callable[[Graph, Weights, CircuitSpecs, tuple[int, int, int], str], Parts[Any]]


def _rows(graph: Graph, weights: Weights, specs: CircuitSpecs, sizes: tuple[int, int, int], _: str) -> Parts[Any]:
    return RowParts(graph, weights, specs, RowsShape(*sizes[:2]))


def _columns(
    graph: Graph, weights: Weights, specs: CircuitSpecs, sizes: tuple[int, int, int], rotations: str
) -> Parts[Any]:
    return ColumnParts(graph, weights, specs, BatchShape(*sizes), rotations)


PACKINGS: Mapping[str, Packing] = {
    packing.name: packing
    for packing in (
        Packing(
            name="rows",
            rotations=("hoisted",),
            lanes=(1,),
            row_estimates=False,
            check=lambda slots, tokens, lanes: RowsShape(slots, tokens),
            texts=lambda slots, tokens, lanes: 1,
            parts=_rows,
        ),
        Packing(
            name="columns",
            rotations=ROTATIONS,
            lanes=(4, 2, 1),
            row_estimates=True,
            check=BatchShape,
            texts=lambda slots, tokens, lanes: slots // (tokens * lanes),
            parts=_columns,
        ),
    )
}
