"""Plans without bootstrapping, and the smallest secure ring that a circuit fits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.api import plan as make_plan
from tacita.errors import InputError, PlanError
from tacita.planning.fitting import Accuracy
from tacita.planning.request import PlanRequest
from tacita.plans.plan import Plan
from tacita.plans.presets import PRESETS, candidates, noise_of
from tacita.plans.prices.formulas import NTT_MS, prices_of

TEXTS = ["a fine film .", "the plot is never boring", "a dull film , very bad", "good"]
ROUGH = Accuracy(0.05, 0.1, 0.1, 0.1, 0.1, 0.1)  # a layer in fewer levels than the deepest chain has


@pytest.fixture(scope="module")
def plan() -> Plan:
    model = make_random_checkpoint(layers=1, pooling="mean")
    return make_plan(
        model, PlanRequest(preset="leveled", tokens=16, scheme="arion", texts=TEXTS, inputs=4, accuracy=ROUGH)
    )


def test_the_smallest_secure_ring_that_fits_is_taken(plan: Plan) -> None:
    assert plan.parameters.preset == "n16_leveled"
    assert plan.parameters.security_bits == 128
    assert plan.bootstraps == 0
    smaller = PRESETS["n15_leveled"]
    assert max(t.level for t in plan.request) > smaller.max_level


def test_keys_take_the_seconds_that_were_measured() -> None:
    """4.5 to 5.8 s a GB from n15_leveled to n17_leveled, on a core whose transform takes 0.111 ms."""
    prices = prices_of(PRESETS["n15_leveled"])
    assert 4.5 < prices.keygen_seconds_per_gb * 0.111 / NTT_MS < 5.8


def test_its_circuit_answers_as_the_bootstrapped_one(plan: Plan) -> None:
    model = make_random_checkpoint(layers=1, pooling="mean")
    other = make_plan(
        model, PlanRequest(preset="insecure_toy_n9", tokens=16, scheme="arion", texts=TEXTS, accuracy=ROUGH)
    )
    assert other.bootstraps > 0
    for backend in ("plain", "sim"):
        found, wanted = (api.classify_batch_locally(p, model, TEXTS, backend=backend) for p in (plan, other))
        assert np.allclose([a.anyway.logits for a in found], [a.anyway.logits for a in wanted], atol=0.005)


def test_keys_of_bootstrapping_are_not_counted(plan: Plan) -> None:
    prices = prices_of(plan.parameters)
    assert prices.sizes.bootstrap_keys_file == 0
    assert plan.prediction.bytes["evaluation_keys"] < prices_of(PRESETS["n16"]).sizes.bootstrap_keys_file


def test_a_circuit_that_is_too_deep_is_refused() -> None:
    model = make_random_checkpoint(layers=2)
    with pytest.raises(PlanError):
        api.plan(model, tokens=16, preset="insecure_toy_leveled_n9", scheme="arion", texts=TEXTS)


def test_noise_is_that_of_the_presets_scale() -> None:
    leveled = PRESETS["n15_leveled"]
    same_ring = dataclasses.replace(PRESETS["n16"], slots=leveled.slots)
    assert noise_of(leveled).rescale == pytest.approx(noise_of(same_ring).rescale * 2.0 ** (38 - 39))


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(InputError, match="no preset 'n99'"):
        candidates("n99")
