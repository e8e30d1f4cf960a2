"""What a plan on ciphertexts publishes for clients without packings: by it alone a request is packed and a
response read as the packing's Python does."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import tacita
from tacita.errors import PlanError
from tacita.planning.client import described
from tacita.planning.request import PlanRequest
from tacita.plans.plan import Plan

TEXTS = ["a film of quiet beauty", "a waste of time"]


@cache
def plan_of(scheme: str) -> Plan:
    request = PlanRequest(scheme=scheme, tokens=16, preset="insecure_toy_n11", texts=TEXTS)
    plan = tacita.plan(tacita.load(), request)
    assert isinstance(plan, Plan)
    return plan


def filled(runs: list[list[int]], numbers: np.ndarray, slots: int) -> np.ndarray:
    found = np.zeros(slots)
    for first, count, source, stride in runs:
        for step in range(count):
            found[first + step] = numbers[source + step * stride]
    return found


def test_a_request_is_packed_by_it_as_by_the_packing() -> None:
    plan = plan_of("thor")
    said: dict[str, Any] = json.loads(described(plan))
    generator = np.random.default_rng(5)
    states, keep = generator.normal(size=(16, plan.hidden)), (np.arange(16) < 7).astype(np.float64)
    numbers = {"hidden": (states / said["bound"]).reshape(-1), "mask": keep / 7}
    packed = plan.layout.request.pack([(states, keep)])
    assert [each["name"] for each in said["request"]] == sorted(packed)
    for tensor in said["request"]:
        vectors = packed[tensor["name"]]
        for runs, vector in zip(tensor["vectors"], vectors, strict=True):
            slots = plan.parameters.slots
            np.testing.assert_array_equal(filled(runs, numbers[tensor["source"]], slots), vector)
    assert {each["name"]: each["level"] for each in said["request"]} == {
        each.name: each.level for each in plan.request
    }


def test_a_response_is_read_by_it_as_by_the_packing() -> None:
    plan = plan_of("thor")
    places = json.loads(described(plan))["response"]
    table = np.random.default_rng(6).normal(size=(places["count"], plan.parameters.slots))
    assert (places["level"], places["agreement"]) == (plan.response[0].level, plan.agreement)
    [read] = plan.layout.response.read(list(table))
    first, again = (np.array([table[tuple(at)] for at in places[side]]) for side in ("numbers", "copies"))
    np.testing.assert_allclose(0.5 * (first + again) * places["bound"], read.values)
    assert 2.0 * table[tuple(places["check"])] == pytest.approx(read.norm_check)


def test_it_says_whose_it_is_and_what_numbers_mean() -> None:
    plan = plan_of("thor")
    said = json.loads(described(plan))
    assert (said["plan"], said["preset"]) == (plan.hash, "insecure_toy_n11")
    assert [tuple(each) for each in said["rotations"]] == list(plan.rotations)
    assert (said["reading"]["labels"], said["reading"]["decimals"]) == (list(plan.labels), plan.decimals)
    assert described(plan) == described(plan)


def test_a_page_rounds_as_finely_as_the_plan_allows() -> None:
    plan = replace(plan_of("thor"), noise=2.0**-7, decimals=0)  # half numbers: see `plans.error.between`
    said = json.loads(described(plan))["reading"]
    assert (said["decimals"], said["parts"]) == (0, 2)


def test_what_pages_have_no_form_for_is_refused() -> None:
    plan = plan_of("thor")
    with pytest.raises(PlanError, match="input or an answer"):
        described(replace(plan, model=replace(plan.model, embeddings=None)))
    with pytest.raises(PlanError, match="coefficient"):
        described(plan_of("leaf"))
    with pytest.raises(PlanError, match="packing columns"):
        described(plan_of("arion"))
