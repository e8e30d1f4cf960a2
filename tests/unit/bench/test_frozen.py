"""The cheap frozen figures are met, and the comparison finds what is worse. See `bench/freeze/command.py`."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from bench.freeze import command as freeze
from bench.freeze import compare
from bench.freeze.parts import Part, to_text, totals
from tacita.errors import InputError


@pytest.mark.parametrize("name", ["sst2-thor", "logits-shipped"])
def test_the_cheap_figures_are_met(name: str) -> None:
    status, said = freeze.check(name, freeze.FROZEN)
    assert status == 0, said


@pytest.mark.parametrize("name", freeze.PARTS)
def test_every_part_is_frozen_as_it_is_written(name: str) -> None:
    text = (freeze.FROZEN / f"{name}.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    assert to_text(facts) == text
    if "stages" in facts:
        assert totals(facts["stages"]) == facts["totals"]
        seconds = sum(stage["seconds"] for stage in facts["stages"])
        assert seconds == pytest.approx(facts["seconds"]["evaluate"])


@pytest.fixture
def plan() -> dict[str, Any]:
    """A frozen plan."""
    return dict(json.loads((freeze.FROZEN / "sst2-thor.json").read_text(encoding="utf-8")))


def level(by: int, name: str = "hidden") -> Any:
    """A change of the first stage: its one input is called `name` and comes `by` levels higher."""

    def change(plan: dict[str, Any]) -> None:
        (old,) = plan["stages"][0]["levels_in"].values()
        plan["stages"][0]["levels_in"] = {name: old + by}

    return change


def rotations(by: int) -> Any:
    """A change of the first stage: it does `by` rotations more."""

    def change(plan: dict[str, Any]) -> None:
        plan["stages"][0]["counts"]["rotate"] += by

    return change


def slower(by: float) -> Any:
    """A change of the first stage: it takes `by` times as long."""

    def change(plan: dict[str, Any]) -> None:
        plan["stages"][0]["seconds"] *= by

    return change


def against(old: dict[str, Any], change: Any) -> tuple[int, str]:
    """The verdict on a copy that `change` has spoilt."""
    new = copy.deepcopy(old)
    change(new)
    return freeze.verdict(old, new)


def test_the_same_figures_are_identical(plan: dict[str, Any]) -> None:
    assert freeze.verdict(plan, copy.deepcopy(plan)) == (0, "ok, identical")


WORSE = {
    "a rotation more": rotations(+1),
    "a new operation": lambda p: p["stages"][0]["counts"].update(bootstrap=1),
    "a higher level": level(+1),
    "a higher level of a renamed tensor": level(+1, "renamed"),
    "a live tensor more": lambda p: p["stages"][0]["levels_in"].update(more=0),
    "a bootstrap more": lambda p: p["stages"][0]["kinds"].append("real"),
    "a sum": lambda p: p["totals"].update(key_switches=p["totals"]["key_switches"] + 1),
    "a stage that takes longer": slower(1.012),
    "a byte of memory": lambda p: p["bytes"].update(server_memory=p["bytes"]["server_memory"] + 1),
    "a ciphertext of the request": lambda p: p["request"].update(ciphertexts=p["request"]["ciphertexts"] + 1),
    "a higher level of the request": lambda p: p["request"].update(levels_each={"hidden": 11, "mask": 8}),
    "a key": lambda p: p.update(rotation_keys=p["rotation_keys"] + 1),
    "another order": lambda p: p["stages"].reverse(),
    "a stage less": lambda p: p["stages"].pop(),
    "fewer decimals": lambda p: p.update(decimals=p["decimals"] - 1),
    "another table of prices": lambda p: p["prices"].update(sha256="0"),
}
ALLOWED = {
    "a rotation less": rotations(-1),
    "an operation that is not done": lambda p: p["stages"][0]["counts"].pop("rotate"),
    "a lower level": level(-1),
    "half a percent of time": slower(1.005),
    "less memory": lambda p: p["bytes"].update(server_memory=1),
    "other noise": lambda p: p.update(noise=2 * p["noise"]),
}


@pytest.mark.parametrize("name", WORSE)
def test_what_is_worse_is_forbidden(plan: dict[str, Any], name: str) -> None:
    status, said = against(plan, WORSE[name])
    assert status == 1 and "WORSE" in said


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_no_worse_is_allowed_and_told(plan: dict[str, Any], name: str) -> None:
    status, said = against(plan, ALLOWED[name])
    assert status == 0 and said.startswith("ok, ") and "->" in said


def test_a_renamed_tensor_is_compared_by_its_level(plan: dict[str, Any]) -> None:
    assert against(plan, level(0, "renamed"))[0] == 0
    assert against(plan, lambda p: p["request"].update(levels_each={"renamed": 10, "mask": 8}))[0] == 0


@pytest.mark.parametrize(("distance", "status"), [(0.9e-6, 0), (1.1e-6, 1)])
def test_logits_may_move_by_a_millionth(distance: float, status: int) -> None:
    old = {"logits": {"sim": [[0.5, -0.5]]}}
    assert freeze.verdict(old, {"logits": {"sim": [[0.5, -0.5 + distance]]}})[0] == status


def test_fewer_logits_are_forbidden() -> None:
    old = {"logits": {"sim": [[0.5, -0.5]]}}
    assert freeze.verdict(old, {"logits": {"sim": []}})[0] == 1


def test_bytes_and_rounds_of_a_session_may_not_grow() -> None:
    phases, operations = {"greeting": {"bytes_sent": 45, "rounds": 3}}, {"gelu": {"sent": 7}}
    old = {"session": {"phases": phases, "operations": operations}}
    more, other = copy.deepcopy(old), copy.deepcopy(old)
    more["session"]["phases"]["greeting"]["rounds"] = 4
    other["session"]["operations"]["gelu"]["sent"] = 8
    assert freeze.verdict(old, more)[0] == 1
    assert freeze.verdict(old, other)[0] == 0


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(InputError, match="no part 'sst2'") as refused:
        freeze.chosen("sst2-thor,sst2")
    assert refused.value.hint.startswith("there are sst2-thor")


def test_absent_data_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    part = Part(lambda: pytest.fail("computed"), tmp_path / "sst2")
    monkeypatch.setitem(freeze.PARTS, "logits-thor", part)
    assert freeze.check("logits-thor", freeze.FROZEN) == (0, "skipped: sst2 is not in ../shared/data")


def test_a_known_shortfall_passes_with_its_reason_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    shortfall = {"estimate/bytes": compare.Known(12, "the last layer")}
    monkeypatch.setattr(compare, "KNOWN", {"a part": shortfall})
    old, as_known, worse = ({"estimate": {"bytes": size}} for size in (10, 12, 13))
    status, said = freeze.verdict(old, as_known, "a part")
    assert status == 0 and "worse and known" in said and "last layer" in said
    assert freeze.verdict(old, worse, "a part")[0] == 1
    assert freeze.verdict(old, as_known, "another part")[0] == 1
