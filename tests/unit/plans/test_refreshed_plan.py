"""Plans whose stages refresh by themselves: what a reader accepts of them, and what not."""

from __future__ import annotations

from typing import Any

import pytest
from plan_changes import put
from plans import altered, model, real_plan

from tacita.errors import FileError
from tacita.planning.circuit import circuit_of
from tacita.plans.plan import Plan, parse
from tacita.schemes.registry import scheme_of

NODE = "layer0.feed_forward"
SPEC = ("circuit", "specs", "nodes", NODE, "function")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return real_plan("leaf")


def uncounted(data: Any) -> None:
    """As if no stage refreshed."""
    for stage in data["stages"]:
        stage["counts"] = {op: n for op, n in stage["counts"].items() if "through" not in op}


def test_a_real_plan_is_accepted_and_counts_its_refreshes(plan: Plan) -> None:
    assert parse(plan.to_text(), "here") == plan
    assert circuit_of(plan, model()).stages
    (stage,) = [stage for stage in plan.stages if stage.through]
    assert stage.name == f"{NODE}.activate" and not stage.kinds
    assert stage.out_levels[f"{NODE}.active"] > stage.levels[f"{NODE}.inner"]
    assert plan.bootstraps == sum(len(s.kinds) for s in plan.stages) + stage.through
    said = {s["name"]: s["bootstraps"] for s in scheme_of(plan.scheme).estimate(plan)["stages"]}
    assert said[stage.name] == stage.through


def test_levels_that_rise_are_counted(plan: Plan) -> None:
    with pytest.raises(FileError, match="levels that rise without a bootstrap"):
        parse(altered(plan, uncounted), "here")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cosines", [0.1] * 5000),
        ("sines", [0.0, 1.0]),
        ("cosines", [1e30, 1.0]),
        ("cosines", "many"),
        ("domain", [1.0, -1.0]),
    ],
)
def test_what_no_circuit_is_built_from_is_refused(plan: Plan, field: str, value: Any) -> None:
    altered_plan = parse(altered(plan, put(*SPEC, field, value=value)), "here", plan.salt)
    with pytest.raises(FileError, match=r"approximation"):
        circuit_of(altered_plan, model())
