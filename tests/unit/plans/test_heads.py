"""What plans of both kinds say in the same words, and the links that their predictions are carried over."""

from __future__ import annotations

import pytest
from plans import real_plan
from random_checkpoint import make_random_checkpoint

from tacita.errors import InputError
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import LINKS, LinkSpeed, link_of
from tacita.plans.scheme import PlanHeader
from tacita.two_party.planning import make_two_party_plan

MODEL = make_random_checkpoint()
TWO_PARTIES = make_two_party_plan(MODEL, PlanRequest(tokens=16, texts=["a fine film", "the plot is dull"]))
HEADS: list[PlanHeader] = [real_plan(), TWO_PARTIES]


@pytest.mark.parametrize("plan", HEADS, ids=["ciphertexts", "two parties"])
def test_a_plan_says_whose_it_is_and_what_a_request_takes(plan: PlanHeader) -> None:
    assert plan.family == "bert" and len(plan.labels) == 2 and not plan.normalise
    assert plan.batch == 1 and plan.tokens in (8, 16) and plan.decimals == 3
    assert len(plan.hash) == 64 and plan.answer > 0.0
    here, sent = plan.predicted_seconds(), plan.predicted_bytes()
    assert here > 0.0 and sent > 0
    assert here < plan.predicted_seconds(LINKS["LAN"]) < plan.predicted_seconds(LINKS["WAN"])
    slow = plan.predicted_seconds(LinkSpeed(1e6, 0.0))
    assert slow - here == pytest.approx(8e-6 * sent, rel=1e-5)


def test_schemes_and_names_are_the_plans_own() -> None:
    assert [plan.scheme for plan in HEADS] == ["thor", "bumblebee"]
    assert (TWO_PARTIES.name, TWO_PARTIES.labels) == (MODEL.name, MODEL.config.labels)


def test_what_a_plan_says_is_no_part_of_its_bytes() -> None:
    data = TWO_PARTIES.to_bytes()
    assert b'"version":3' in data and b'"scheme"' not in data and b'"batch"' not in data
    assert '"name"' in real_plan().to_text() and '"predicted_bytes"' not in real_plan().to_text()


def test_links_by_name_and_by_numbers() -> None:
    assert link_of("lan") == link_of("LAN") == LINKS["LAN"]
    assert link_of("wan") == LINKS["WAN"]
    assert link_of("100,20") == LinkSpeed(1e8, 0.02)


@pytest.mark.parametrize("text", ["", "lam", "100", "0,1", "-1,1", "1,-1", "nan,1", "inf,1", "1,2,3"])
def test_other_links_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="no link"):
        link_of(text)
