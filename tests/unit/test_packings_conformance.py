"""The exported suite of packings, on every packing."""

from __future__ import annotations

from typing import Any

import pytest

from tacita.packings.columns.layout import BatchShape
from tacita.packings.columns.parts import ColumnParts
from tacita.packings.conformance import CASES, Case, check
from tacita.packings.multidiagonal.parts import DiagonalParts
from tacita.packings.rows.layout import RowsShape
from tacita.packings.rows.parts import RowParts
from tacita.slots.plain import PlainBackend

TOKENS, LEVELS = 16, 400
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
@pytest.mark.parametrize("slots", [256, 1024])
def test_rows(case: Case, slots: int) -> None:
    def build(graph: Any, weights: Any, specs: Any) -> RowParts:
        return RowParts(graph, weights, specs, RowsShape(slots, TOKENS))

    check(case, build, PlainBackend(slots, LEVELS), TOKENS, tolerance(case))


@every_case
@pytest.mark.parametrize("slots", [256, 512, 1024])
def test_multidiagonal(case: Case, slots: int) -> None:
    """Several ciphertexts a tensor, one, and one with room for every diagonal four times."""

    def build(graph: Any, weights: Any, specs: Any) -> DiagonalParts:
        return DiagonalParts(graph, weights, specs, slots, TOKENS)

    check(case, build, PlainBackend(slots, LEVELS), TOKENS, tolerance(case))


@every_case
def test_multidiagonal_with_softmax_in_two_phases(case: Case) -> None:
    def build(graph: Any, weights: Any, specs: Any) -> DiagonalParts:
        return DiagonalParts(graph, weights, specs, 256, TOKENS)

    check(case, build, PlainBackend(256, LEVELS), TOKENS, tolerance(case), two_phases=True)


@every_case
@pytest.mark.parametrize("rotations", ["double", "single"])
def test_columns(case: Case, rotations: str) -> None:
    def build(graph: Any, weights: Any, specs: Any) -> ColumnParts:
        return ColumnParts(graph, weights, specs, BatchShape(128, TOKENS), rotations)

    check(case, build, PlainBackend(128, LEVELS), TOKENS, tolerance(case), texts=5)


def tolerance(case: Case) -> float:
    return 0.1 if case.name == "relu" else 0.005
