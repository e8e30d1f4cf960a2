"""What `tacita estimate --scheme bumblebee` says."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tacita import api
from tacita.cli.app import main
from tacita.cli.estimate_two_party import estimate
from tacita.plan.two_party import TwoPartyPlan, make_two_party_plan
from tacita.plan.two_party_cost import LINKS, expected_bytes, expected_seconds, multiplications

TEXTS = ["a film of quiet beauty", "a waste of time"]


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    return make_two_party_plan(api.load(api.DEFAULT_MODEL), 128, TEXTS)


def test_the_default_model_is_estimated_as_it_was_measured(plan: TwoPartyPlan) -> None:
    """Against the figures in the README: 1.18 s, 39.2 MB, 3.64 million transfers."""
    found = estimate(plan)
    assert found["seconds_per_input"]["loopback"] == pytest.approx(1.18, rel=0.25)
    assert found["bytes_per_input"] == pytest.approx(39.2e6, rel=0.2)
    assert found["transfers_per_input"] == pytest.approx(3.64e6, rel=0.34)


def test_weights_are_counted_once_for_every_row(plan: TwoPartyPlan) -> None:
    """First layer: 4 d^2 + 2 d w for 128 rows; last one: keys and values for all rows, the rest for one."""
    d, w = 128, 512
    assert multiplications(plan) == 128 * (4 * d * d + 2 * d * w) + (2 * 128 + 2) * d * d + 2 * d * w


def test_links_add_their_bytes_and_rounds(plan: TwoPartyPlan) -> None:
    here = expected_seconds(plan)
    assert here < expected_seconds(plan, LINKS["LAN"]) < expected_seconds(plan, LINKS["WAN"])
    slow = dataclasses.replace(LINKS["LAN"], bits_per_second=1e6, round_trip=0.0)
    assert expected_seconds(plan, slow) - here == pytest.approx(8e-6 * expected_bytes(plan))


def test_the_command_writes_the_fields(tmp_path: Path) -> None:
    report = tmp_path / "estimate.json"
    assert main(["estimate", "--scheme", "bumblebee", "--tokens", "16", "--inputs", "3", "--json", str(report)]) == 0
    found = json.loads(report.read_text())
    assert found["scheme"] == "bumblebee" and found["inputs"] == 3
    assert found["wall_seconds"] == pytest.approx(3 * found["seconds_per_input"]["loopback"])
