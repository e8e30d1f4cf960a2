"""`python -m bench arion` of one layer: its row says which function errs, on sim and on a toy ring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from bench.models.published import Example
from bench.runs.arion import CONTEXT, of_layer, planned
from bench.runs.harness import Machine
from tacita.checkpoint.reference import reference
from tacita.planning.fitting import Accuracy
from tacita.planning.request import PlanRequest

MODEL = make_random_checkpoint(layers=1, pooling="mean", labels=())
HIDDEN = np.random.default_rng(3).normal(size=(6, 16))
TRACE = reference(MODEL, HIDDEN, np.ones(6)).trace
EXAMPLE = Example(MODEL, HIDDEN, {CONTEXT: TRACE[CONTEXT]}, np.zeros(0))


def row(backend: str = "sim", **wanted: Any) -> dict[str, Any]:
    request = PlanRequest(preset="insecure_toy_n12", tokens=8, quick=True, **wanted)
    return of_layer(EXAMPLE, planned(EXAMPLE, request, 16, 0.25), Machine(backend, allow_insecure=True))


def test_a_row_names_the_function_that_errs() -> None:
    fine, coarse = row(), row(accuracy=Accuracy(activation=0.05))
    assert set(fine["functions"]) == {"attention", "norm1", "feed_forward", "norm2"}
    assert fine["functions"]["feed_forward"][1] < 2e-3 < coarse["functions"]["feed_forward"][1] < 0.06
    for name in ("attention", "norm1", "norm2"):
        assert fine["functions"][name] == pytest.approx(coarse["functions"][name], rel=0.5)
    mean, most = fine["norms"]["norm1"]
    assert 0.0 < mean < most < 0.02
    assert fine["attended"][1] < 0.02 and fine["warnings"] == 0


@pytest.mark.native
def test_a_layer_encrypted_has_an_answer_and_no_norms() -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    found = row("ckks")
    assert found["norms"] == {} and "attended" not in found
    assert 0.0 < found["answer"][1] < 0.02
