"""Which correlated transfers a plan takes."""

from __future__ import annotations

import dataclasses

import pytest

from tacita import api
from tacita.errors import FileError
from tacita.planning.request import PlanRequest
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.correlations import PRICES, quicker, seconds
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program.program import CORRELATIONS


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    return make_two_party_plan(
        api.load(api.DEFAULT_MODEL),
        PlanRequest(tokens=16, texts=["a film of quiet beauty", "a waste of time"]),
    )


def test_every_kind_has_a_measured_price() -> None:
    assert all(price.seconds > 0.0 and price.bytes > 0.0 for price in PRICES.values())
    assert set(PRICES) == set(CORRELATIONS)


def test_long_sessions_and_short_ones_differ() -> None:
    assert quicker(1e8, 1e8) == "ferret" and quicker(1e4, 1e9) == "softspoken"
    assert seconds("ferret", 1e8, 1e8) < 0.2 * seconds("softspoken", 1e8, 1e8)


@pytest.mark.parametrize("speed", [1e6, 1e8, 1e9, 1e13])
def test_the_quicker_kind_takes_less_time(speed: float) -> None:
    for count in (1.0, 1e4, 1e6, 1e9):
        best = quicker(count, speed)
        assert all(seconds(best, count, speed) <= seconds(kind, count, speed) for kind in CORRELATIONS)


def test_the_plan_names_what_both_sides_use(plan: TwoPartyPlan) -> None:
    slow = plan.for_link(1e7)
    assert slow.correlations == "ferret" and parse_plan(slow.to_bytes()) == slow
    with pytest.raises(FileError, match="correlations"):
        parse_plan(dataclasses.replace(plan, correlations="none").to_bytes())


def test_transfers_grow_with_the_model(plan: TwoPartyPlan) -> None:
    """Those of the last layer's one row stay as they are."""
    longer = dataclasses.replace(plan, tokens=32)
    assert (
        1.2 * plan.program.cost().transfers
        < longer.program.cost().transfers
        < 4 * plan.program.cost().transfers
    )
