"""The exported suite of blocks on every interpreter on tensors: integers, one party's shares, their count,
shapes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from eager import SIMULATED, Known, SharedTensors, cost, counting

from tacita.blocks.base import Attention, Dense, FeedForward, Norm
from tacita.blocks.conformance import CASES, FEATURES, TOKENS, Case, Task, check, task_of
from tacita.blocks.shapes import Function, Shapes
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.errors import PlanError, ShapeError
from tacita.two_party.arithmetic.base import AttentionBounds, Bounds, Formats, NormBounds
from tacita.two_party.protocol.party import Party, pair

# by both parties: there are no protocols
REFUSED = {"powers", "deviation"}
TOLERANCE = 0.01  # GELU's forms have errors of 2.5e-3
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def bounds_of(task: Task) -> Bounds:
    """Of what floats see, with room."""
    walk, seen = Shapes(), dict[str, np.ndarray]()
    task.forward(walk, (TOKENS, FEATURES))
    task.floats(seen.__setitem__)
    found = Bounds({}, {}, {})
    for name, node in walk.nodes.items():
        if isinstance(node, Attention):
            context = 1.5 * float(np.abs(seen[f"{name}.context"]).max())
            found.attention[name] = AttentionBounds(interval(seen[f"{name}.scores"]), context)
        elif isinstance(node, FeedForward | Function):
            found.functions[name] = interval(seen[f"{name}.argument"])
            if getattr(node, "gate", None):
                found.gates[name] = 1.5 * float(np.abs(seen[f"{name}.product"]).max())
        elif isinstance(node, Norm):
            centred, variance = (seen[f"{name}.{key}"] for key in ("centred", "variance"))
            spread = (float(variance.min()) / 1.5, float(variance.max()) * 1.5)
            found.norms[name] = NormBounds(1.5 * float(np.abs(centred).max()), spread, 2.0)
    return found


def interval(x: np.ndarray) -> tuple[float, float]:
    pad = 0.2 * float(np.ptp(x))
    return float(x.min()) - pad, float(x.max()) + pad


@every_case
def test_integers(case: Case) -> None:
    def run(task: Task) -> Any:
        known = Known(Formats(), bounds_of(task), TOKENS, Weights(task.tensors), task.mask)
        ops = SharedTensors(SIMULATED, known)
        found = ops.floats(task.forward(TensorBlocks(ops), ops.own(task.hidden)))
        assert not ops.overflows
        return found

    check(case, run, TOLERANCE, refused=case.option in REFUSED)


@pytest.fixture(scope="module")
def session() -> Iterator[tuple[Party, Party]]:
    native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    assert hasattr(native, "TwoParty")
    with pair(timeout=180.0) as parties, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda party: party.set_up(), parties))
        yield parties


@pytest.mark.native
@every_case
def test_shares(case: Case, session: tuple[Party, Party]) -> None:
    def run(task: Task) -> Any:
        known = Known(Formats(), bounds_of(task), TOKENS)

        def work(party: Party) -> Any:
            client = party is session[0]
            mine = replace(known, mask=task.mask) if client else replace(known, weights=Weights(task.tensors))
            ops = SharedTensors(party.native, mine)
            given = ops.own(task.hidden) if client else ops.theirs(task.hidden.shape)
            out = task.forward(TensorBlocks(ops), given)
            return ops.reveal(out) if client else ops.give(out)

        with ThreadPoolExecutor(2) as pool:
            return next(iter(pool.map(work, session)))

    check(case, run, TOLERANCE, refused=case.option in REFUSED)


@every_case
def test_count(case: Case) -> None:
    task = task_of(case)
    ops, x = counting(Formats(), bounds_of(task), task.hidden.shape)
    if case.option in REFUSED:
        with pytest.raises(PlanError, match="two-party mode"):
            case.forward(TensorBlocks(ops), x)
        return
    assert case.forward(TensorBlocks(ops), x).shape == task.floats().shape
    assert cost(ops).sent() > 0 or case.name == "sum of tensors"


@every_case
def test_shapes(case: Case) -> None:
    assert case.forward(Shapes(), (TOKENS, FEATURES)) == task_of(case).floats().shape


def test_shapes_that_do_not_fit_are_refused() -> None:
    walk = Shapes()
    with pytest.raises(ShapeError, match="4 features, the node takes 5"):
        walk.linear((3, 4), Dense("d", 5, 2), "map")
    with pytest.raises(ShapeError, match="in 3 heads"):
        dense = Dense("d", 4, 4)
        walk.attention((3, 4), Attention(3, dense, dense, dense, dense), "attention")
    with pytest.raises(ShapeError, match="a sum of tensors"):
        walk.add((3, 4), (1, 4))
    walk.mean((3, 4), "twice")
    with pytest.raises(PlanError, match="two nodes called 'twice'"):
        walk.mean((3, 4), "twice")
