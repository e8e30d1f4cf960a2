"""An option that is put into the two lists is planned, stated, checked and shown: nothing else names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import tiny
from plan_changes import Change, put
from plans import TOKENS, altered, model, real_plan

from tacita.api import plan as make_plan
from tacita.cli.plan import show
from tacita.errors import FileError, InputError
from tacita.limits import Rules
from tacita.packings.base import Circuit
from tacita.planning import options as planned
from tacita.planning import request
from tacita.planning.request import PlanRequest
from tacita.plans import options as stated
from tacita.plans.plan import Plan, parse


class Coarse(stated.PlanOption):
    """Answers are shown to so many decimals."""

    name = "coarse"
    decimals = 1

    def check(self, plan: Plan) -> Rules:
        yield "decimals of a coarse plan", plan.decimals <= plan.options[self.name] <= self.decimals

    def describe(self, plan: Plan) -> str:
        return f"shown to {plan.options[self.name]:g} decimals"


@dataclass(frozen=True)
class CoarseOption(planned.Option):
    decimals = Coarse.decimals

    @classmethod
    def of(cls, request: PlanRequest) -> CoarseOption | None:
        if request.tokens > TOKENS:
            raise InputError("a coarse plan of many tokens", hint="fewer")
        return CoarseOption()

    def state(self, circuit: Circuit, levels: Mapping[str, int]) -> dict[str, Any]:
        return {"options": {Coarse.name: float(self.decimals)}}


def coarse_plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(stated, "OPTIONS", [*stated.OPTIONS, Coarse()])
    monkeypatch.setattr(request, "OPTIONS", [*planned.OPTIONS, CoarseOption])
    samples = [tiny.inputs(model(), TOKENS, real, seed) for seed, real in enumerate((8, 5, 8))]
    return make_plan(model(), PlanRequest(preset="insecure_toy_n10", tokens=TOKENS, hidden_states=samples))


def test_a_listed_option_changes_the_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    other = real_plan()  # before the lists are changed: it is kept
    plan = coarse_plan(monkeypatch)
    assert (plan.decimals, other.decimals) == (1, 3) and plan.hash != other.hash
    assert parse(plan.to_text(), "here") == plan and '"options"' not in other.to_text()
    (tmp_path / "plan.json").write_text(plan.to_text())
    show(tmp_path / "plan.json")
    assert "shown to 1 decimals" in capsys.readouterr().out
    with pytest.raises(InputError, match="coarse plan of many tokens"):
        PlanRequest(tokens=2 * TOKENS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("options", value={"coarse": 3.0}), "decimals of a coarse plan"),
        (put("options", value={"coarse": 1.0, "other": 1.0}), "options out of range"),
        (put("options", value={"coarse": "1"}), "damaged plan"),
        (put("options", value={}), "left out at its default"),
    ],
)
def test_what_it_states_is_checked(monkeypatch: pytest.MonkeyPatch, change: Change, message: str) -> None:
    with pytest.raises(FileError, match=message):
        parse(altered(coarse_plan(monkeypatch), change), "here")


def test_a_reader_without_the_option_refuses_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    text = coarse_plan(monkeypatch).to_text()
    monkeypatch.undo()
    with pytest.raises(FileError, match="options out of range"):
        parse(text, "here")
