"""Published numbers: 8 bits, outwards, hardly larger; every float of both kinds of plan is one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.planning.calibrate.calibration import BITS, down, nearest, round_outward, share, up
from tacita.planning.request import PlanRequest
from tacita.two_party.planning import make_two_party_plan

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
SIZES = st.floats(1e-200, 1e200)
VALUES = st.one_of(SIZES, SIZES.map(lambda x: -x), st.just(0.0))


def has_eight_bits(value: float) -> bool:
    mantissa, _ = math.frexp(value)
    return math.ldexp(mantissa, BITS) == round(math.ldexp(mantissa, BITS))


@settings(deadline=None)
@given(VALUES, VALUES)
def test_intervals_grow_outwards_by_little_and_once(a: float, b: float) -> None:
    lo, hi = min(a, b), max(a, b)
    found = round_outward((lo, hi))
    assert found[0] <= lo and hi <= found[1]
    for end, value in zip(found, (lo, hi), strict=True):
        assert abs(end - value) <= 2.0**-7 * abs(value)
        assert has_eight_bits(end)
    assert round_outward(found) == found
    assert (found[0] > 0.0) == (lo > 0.0), "a positive interval stays positive"


@settings(deadline=None)
@given(VALUES)
def test_magnitudes_go_up_and_the_nearest_is_between(value: float) -> None:
    assert down(value) <= nearest(value) <= up(value)
    assert has_eight_bits(nearest(value)) and nearest(nearest(value)) == nearest(value)
    assert abs(nearest(value) - value) <= 2.0**-8 * abs(value)
    assert up(-value) == -down(value)


@settings(deadline=None)
@given(st.floats(0.0, 1.0))
def test_shares_become_half_powers_of_two(value: float) -> None:
    found = share(value)
    assert found == 0.0 or (
        math.frexp(found)[0] in (0.5, nearest(0.5**0.5)) and 2**-0.26 < found / value < 2**0.26
    )
    assert has_eight_bits(found)
    assert (found == 0.0) == (value < 2.0**-14)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("scheme", ["thor", "arion"])
def test_every_statistic_of_a_ciphertext_plan_has_eight_bits(scheme: str, activation: str) -> None:
    model = make_random_checkpoint(activation=activation)
    plan = api.plan(model, tokens=16, preset="insecure_toy_n10", scheme=scheme, texts=TEXTS)
    data = json.loads(plan.to_text())
    found = list(numbers(data["circuit"]["calibration"] | {"margin": 0.0}))
    assert len(found) > 40 and all(map(has_eight_bits, found))
    assert has_eight_bits(data["prediction"]["error"]["bound"])
    density = data["circuit"]["calibration"]["nodes"]["layer0.feed_forward"]["density"]
    assert bool(density) == (activation == "relu"), "only ReLU's fit asks for the density"


@pytest.mark.parametrize("embeddings", ["published", "hidden"])
def test_every_statistic_of_a_two_party_plan_has_eight_bits(embeddings: str) -> None:
    plan = make_two_party_plan(
        make_random_checkpoint(), PlanRequest(tokens=16, texts=TEXTS, embeddings=embeddings)
    )
    data = json.loads(plan.to_bytes())
    found = list(numbers([data["bounds"], data["magnitudes"], data["answer"], data["embedding"]]))
    assert len(found) > 25 and all(map(has_eight_bits, found))


def test_circuits_are_fitted_on_the_rounded_intervals() -> None:
    plan = api.plan(make_random_checkpoint(), tokens=16, preset="insecure_toy_n10", texts=TEXTS)
    found, specs = (plan.circuit[part]["nodes"] for part in ("calibration", "specs"))
    fitted, seen = specs["layer0.feed_forward"]["function"], found["layer0.feed_forward"]
    assert np.allclose(fitted["interval"], seen["argument"], rtol=0, atol=0)
    assert found["layer0.attention"]["shift"] == found["layer0.attention"]["scores"][1]
