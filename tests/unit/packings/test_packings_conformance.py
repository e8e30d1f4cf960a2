"""The exported suite of packings, on every packing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tacita.approx.activations import elu, gelu, gelu_tanh, silu
from tacita.approx.fourier import fit
from tacita.approx.spec import Spec
from tacita.blocks.base import Powers
from tacita.blocks.graph import record
from tacita.errors import PlanError, ShapeError
from tacita.layouts.coefficients import Transposition
from tacita.layouts.registry import Shape
from tacita.layouts.rows import RowsShape
from tacita.packings.conformance import (
    CASES,
    Case,
    Little,
    check,
    circuit_of,
    norms_before,
    specs_of,
    world_of,
)
from tacita.packings.lowering import lower, lowering_of
from tacita.packings.specs import CircuitSpecs, FunctionSpecs
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

TOKENS, LEVELS = 16, 400
SMOOTH = {"gelu": gelu.exact, "gelu_tanh": gelu_tanh.exact, "silu": silu.exact, "elu": elu.exact}
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def build_in(packing: str, slots: int, tokens: int = TOKENS, rotations: str = "hoisted") -> Any:
    return partial(lowering_of, shape=Shape(packing, rotations, slots, tokens))


@every_case
@pytest.mark.parametrize("slots", [256, 1024])
def test_rows(case: Case, slots: int) -> None:
    check(case, build_in("rows", slots), PlainBackend(slots, LEVELS), TOKENS, tolerance(case))


@every_case
@pytest.mark.parametrize(("tokens", "slots"), [(16, 1024), (32, 512), (128, 8192)])
def test_coefficients(case: Case, tokens: int, slots: int) -> None:
    """Windows as long as half of the tokens, and longer ones."""
    check(case, coefficients(slots, tokens), PlainBackend(slots, LEVELS), tokens, tolerance(case))


@pytest.mark.parametrize("case", [c for c in CASES if "averaged" in c.name], ids=lambda case: case.name)
def test_coefficients_in_several_ciphertexts(case: Case) -> None:
    """A window of 8 positions for 16 features and more."""
    check(case, coefficients(128, TOKENS), PlainBackend(128, LEVELS), TOKENS, tolerance(case))


def coefficients(slots: int, tokens: int) -> Any:
    build = build_in("coefficients", slots, tokens)
    return lambda graph, weights, specs: build(graph, weights, refreshed(specs))


@pytest.mark.parametrize("name", ["powers", "stored deviations"])
def test_exact_functions_of_a_model_that_stores_numbers_are_its_own(name: str) -> None:
    """A stored inverse is what the model divides by, not an approximation of what others do."""
    (case,) = (case for case in CASES if case.name == name)

    def build(graph: Any, weights: Any, specs: CircuitSpecs) -> Any:
        return build_in("rows", 256)(graph, weights, specs.exactly(["softmax", "norm"]))

    check(case, build, PlainBackend(256, LEVELS), TOKENS, tolerance(case))


M = Little(16, 2)


def first_row(b: Any, x: Any) -> Any:
    total = b.add(b.take(x, 1), b.attention(x, M.attention, "attention", 1))
    return b.norm(total, M.norm("ln1"), "norm1")


def residual_of_all_rows(b: Any, x: Any) -> Any:
    return b.add(b.take(x, 1), b.feed_forward(first_row(b, x), M.feed_forward, "feed_forward"))


def residual_of_one_row(b: Any, x: Any) -> Any:
    return b.add(first_row(b, x), b.attention(x, M.attention, "again", 1))


def attention_of_one_row(b: Any, x: Any) -> Any:
    y = first_row(b, x)
    return b.add(y, b.attention(y, M.attention, "again"))


def feed_forward_of_one_of_all_rows(b: Any, x: Any) -> Any:
    total = b.add(x, b.attention(x, M.attention, "attention"))
    y = b.take(b.norm(total, M.norm("ln1"), "norm1"), 1)
    return b.add(y, b.feed_forward(y, M.feed_forward, "feed_forward"))


def answer_of_one_of_all_rows(b: Any, x: Any) -> Any:
    return b.add(x, b.attention(x, M.attention, "attention"))


BLOCKS = (
    residual_of_all_rows,
    residual_of_one_row,
    attention_of_one_row,
    feed_forward_of_one_of_all_rows,
    answer_of_one_of_all_rows,
)


@pytest.mark.parametrize("packing", ["rows", "multidiagonal", "columns"])
@pytest.mark.parametrize("block", BLOCKS)
def test_one_row_and_all_are_not_taken_for_each_other(block: Any, packing: str) -> None:
    """They lie in different layouts, whose ciphertexts are as many: the answers would be others."""

    def forward(b: Any, x: Any) -> Any:
        y = b.norm(block(b, x), M.norm("ln2"), "norm2")
        return b.answer(b.take(b.linear(y, M.dense("classifier", 3), "classifier"), 1))

    (case,) = (case for case in CASES if case.name == "norms after, first row, pooled, classified")
    world, graph = world_of(case, TOKENS), record(forward, TOKENS, 16)
    specs = specs_of(world)
    specs = replace(specs, nodes={**specs.nodes, "again": specs.nodes["attention"]})
    rotations = "double" if packing == "columns" else "hoisted"
    lowering = build_in(packing, 256, rotations=rotations)(graph, world.weights, specs)
    with pytest.raises(PlanError, match="no packing has the step"):
        lower(graph, lowering, specs)


def test_feed_forward_blocks_of_all_tokens_are_coefficient_products() -> None:
    """Those with a polynomial, and those of one vector, stay in rows."""

    def stages(build: Any) -> set[str]:
        (case,) = (case for case in CASES if case.name == "norms after, averaged")
        circuit = circuit_of(world_of(case, TOKENS), build)
        return {stage.name.rpartition(".")[2] for stage in circuit.stages if "feed_forward" in stage.name}

    assert stages(build_in("coefficients", 256)) == {"expand", "activate", "contract"}
    assert stages(coefficients(256, TOKENS)) == {"arrange", "activate", "contract", "restore"}


def test_windows_shorter_than_half_of_the_tokens_are_refused() -> None:
    with pytest.raises(ShapeError, match="coefficients packing does not admit 64 tokens in 1024 slots"):
        Transposition(RowsShape(1024, 64))


def refreshed(specs: CircuitSpecs) -> CircuitSpecs:
    """With smooth activations by a bootstrap."""
    nodes = {
        name: replace(node, function=_by_bootstrap(node.function))
        for name, node in specs.nodes.items()
        if isinstance(node, FunctionSpecs) and node.function.function in SMOOTH
    }
    return replace(specs, nodes={**specs.nodes, **nodes})


def _by_bootstrap(spec: Spec) -> Spec:
    return fit(spec.function, SMOOTH[spec.function], spec.interval, spec.domain, 1e-4)


@every_case
@pytest.mark.parametrize("slots", [256, 512, 1024])
def test_multidiagonal(case: Case, slots: int) -> None:
    """Several ciphertexts a tensor, one, and one with room for every diagonal four times."""
    check(case, build_in("multidiagonal", slots), PlainBackend(slots, LEVELS), TOKENS, tolerance(case))


@pytest.mark.parametrize("backend", ["plain", "sim"])
@pytest.mark.parametrize(
    ("packing", "slots", "texts"), [("rows", 8192, 1), ("multidiagonal", 8192, 1), ("columns", 4096, 4)]
)
def test_texts_of_1024_tokens(packing: str, slots: int, texts: int, backend: str) -> None:
    """The longest of rows and diagonals, and in columns; with noise, too."""
    rotations = "double" if packing == "columns" else "hoisted"
    be = PlainBackend(slots, LEVELS) if backend == "plain" else SimBackend(slots, LEVELS, inject=True)
    check(CASES[0], build_in(packing, slots, 1024, rotations), be, 1024, tolerance(CASES[0]), texts)
    if packing != "columns":
        with pytest.raises(ShapeError, match="does not admit"):
            circuit_of(world_of(CASES[0], 2048), build_in(packing, slots, 2048))


def test_multidiagonal_with_narrow_heads() -> None:
    """Scores in several ciphertexts, in each of which queries and keys repeat: 4 features a head, places for
    8, 16 tokens."""
    little = Little(12, 3)
    forward = partial(norms_before, m=little, rows=None, head="classify")
    case = Case("narrow heads", forward, little.features, little.heads)
    check(case, build_in("multidiagonal", 512), PlainBackend(512, LEVELS), TOKENS, 0.005)


@every_case
@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("packing", ["rows", "multidiagonal"])
def test_softmax_in_rounds(case: Case, packing: str, rounds: int) -> None:
    build, be = build_in(packing, 256), PlainBackend(256, LEVELS)
    check(case, build, be, TOKENS, tolerance(case), rounds=rounds)


@every_case
@pytest.mark.parametrize(("rotations", "rounds"), [("double", 0), ("single", 1), ("double", 2)])
def test_columns(case: Case, rotations: str, rounds: int) -> None:
    build = build_in("columns", 128, rotations=rotations)
    check(case, build, PlainBackend(128, LEVELS), TOKENS, tolerance(case), texts=5, rounds=rounds)


@pytest.mark.parametrize(
    "case", [case for case in CASES if ", after, a" in case.name or "every" in case.name]
)
def test_columns_with_fused_norms(case: Case) -> None:
    """Where a norm stands between an attention and a feed-forward it is fused; elsewhere it cannot be."""
    build, be = build_in("columns", 128, rotations="double"), PlainBackend(128, LEVELS)

    def fused(graph: Any, weights: Any, specs: CircuitSpecs) -> Any:
        return build(graph, weights, specs.with_fused(["norm1"]))

    if "before" in case.name or "newer" in case.name:
        with pytest.raises(PlanError, match="packing columns: norm1 has a fused norm"):
            circuit_of(world_of(case, TOKENS), fused)
        return
    assert "norm1" in circuit_of(world_of(case, TOKENS), build).fusible
    check(case, fused, be, TOKENS, tolerance(case), texts=5)


def tolerance(case: Case) -> float:
    return 0.1 if case.name == "relu" else 0.005


def test_powers_with_a_limited_reach_are_refused_by_name() -> None:
    """Their meaning has no reach (`blocks.tensors`)."""
    (case,) = (case for case in CASES if case.name == "powers")
    attention = Little(16, 2, weights=Powers(3, 4.0, 150.0), placed={"reach": (3, 2)})
    forward = partial(norms_before, m=attention, rows=None, head="mean classify")
    narrow = replace(case, forward=forward)
    with pytest.raises(PlanError, match="packing rows: attention has a limited reach of powers"):
        circuit_of(world_of(narrow, TOKENS), build_in("rows", 256))
