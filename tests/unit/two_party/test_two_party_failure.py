"""The chance of a wrong answer that a two-party plan states, and above which it is refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from eager import cost, counting

from tacita import api
from tacita.blocks.base import Norm
from tacita.cli.service.port import expectation
from tacita.errors import FileError
from tacita.planning.request import PlanRequest
from tacita.schemes.two_parties import TwoParties
from tacita.two_party.arithmetic.base import Bounds, Formats, NormBounds
from tacita.two_party.plan.check import check
from tacita.two_party.plan.correlations import in_words
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program import cost as two_party_failure
from tacita.two_party.program.cost import failure_log2

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    return make_two_party_plan(
        api.load(api.DEFAULT_MODEL),
        PlanRequest(tokens=128, texts=["a film of quiet beauty", "a waste of time"]),
    )


def sized(plan: TwoPartyPlan, layers: int, hidden: int, tokens: int) -> TwoPartyPlan:
    """The plan of a model as large as that, with the usual heads of 64 and four times wider inner layers."""
    config = dataclasses.replace(
        plan.config, layers=layers, hidden=hidden, heads=hidden // 64, intermediate=4 * hidden, positions=512
    )
    of = plan.bounds
    repeated = Bounds(*(_of_layers(found, layers) for found in (of.attention, of.functions, of.norms)))
    return dataclasses.replace(plan, config=config, tokens=tokens, bounds=repeated)


def _of_layers(found: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Bounds of layer 0 for every layer, and those outside layers."""
    kept = {name: value for name, value in found.items() if not name.startswith("layer")}
    first = {name: value for name, value in found.items() if name.startswith("layer0.")}
    return kept | {name.replace("0", str(i), 1): v for name, v in first.items() for i in range(layers)}


def chance(plan: TwoPartyPlan) -> float:
    return failure_log2(plan.program.cost().responses)


@pytest.mark.parametrize(
    ("layers", "hidden", "tokens", "stated"),
    [(2, 128, 128, -59.4), (12, 768, 128, -53.4), (12, 768, 512, -50.4), (24, 1024, 512, -48.9)],
)
def test_the_chances_that_the_threat_model_states(
    plan: TwoPartyPlan, layers: int, hidden: int, tokens: int, stated: float
) -> None:
    assert chance(sized(plan, layers, hidden, tokens)) == pytest.approx(stated, abs=0.06)


def test_responses_of_a_norm_are_counted(plan: TwoPartyPlan) -> None:
    """A LayerNorm of 512 rows has 48 ciphertexts of 16 columns, whose squares are added into one response."""
    for rows, blocks in ((512, 48), (128, 12)):
        bounds = Bounds({}, {}, {"n": NormBounds(8.0, (0.05, 9.0), 2.0)})
        ops, x = counting(Formats(), bounds, (rows, 768))
        ops.norm(x, Norm("n", 768, 1e-12), "n")
        assert cost(ops).responses == 2 + 2 * blocks


def test_a_plan_that_would_often_fail_is_refused(plan: TwoPartyPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    check(plan)
    monkeypatch.setattr("tacita.two_party.plan.check.MOST_FAILURE", chance(plan) - 0.1)
    with pytest.raises(FileError, match=r"chance of a wrong answer 2\^-59\.4 is out of range"):
        check(plan)


def test_the_bound_of_a_coefficient_is_the_engines() -> None:
    """The engine's test holds every width to it."""
    source = (ROOT / "crates/bfv/src/slots/moduli.rs").read_text()
    assert float(re.search(r"FAILURE_LOG2: f64 = (-[\d.]+);", source)[1]) == two_party_failure.COEFFICIENT


def test_estimate_and_serve_say_it(plan: TwoPartyPlan) -> None:
    assert TwoParties().estimate(plan)["failure_log2"] == chance(plan)
    assert "probability below 2^-59.4 a text" in expectation(plan.program)


def test_a_plan_without_a_response_never_fails_by_chance() -> None:
    assert in_words(failure_log2(0)) == "never"
    assert in_words(-46.04) == "with probability below 2^-46.0 a text"
