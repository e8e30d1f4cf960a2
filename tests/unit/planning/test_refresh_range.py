"""A text that drives GELU to [-61, 108] where calibration saw [-4, 4]: thor warns, leaf answers rightly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import wide_gelu

import tacita
from tacita.approx.activations import WIDE
from tacita.approx.fit import FitError
from tacita.approx.functions import Functions
from tacita.checkpoint import from_tensors
from tacita.checkpoint.reference import reference
from tacita.errors import InputError
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.calibrate.excesses import excesses
from tacita.planning.calibrate.walk import walk
from tacita.planning.fitting import fit_circuit
from tacita.schemes.base import silent
from tacita.schemes.registry import scheme_of

SAMPLES = [wide_gelu.usual(seed) for seed in range(60)]
ARGUMENT, NODE = "layer0.feed_forward.argument", "layer0.feed_forward"


@pytest.fixture(scope="module")
def model():
    return wide_gelu.model()


@pytest.fixture(scope="module")
def plans(model):
    options = {"tokens": wide_gelu.TOKENS, "preset": "insecure_toy_n10", "hidden_states": SAMPLES}
    return {name: tacita.plan(model, scheme=name, **options) for name in ("thor", "leaf")}


def test_calibration_does_not_show_what_the_text_does(model, plans):
    seen = [reference(model, *sample).trace[ARGUMENT] for sample in SAMPLES]
    asked = reference(model, *wide_gelu.asked()).trace[ARGUMENT]
    assert max(np.max(np.abs(values)) for values in seen) < 4.0
    assert (np.min(asked), np.max(asked)) == pytest.approx((wide_gelu.DOWN, wide_gelu.UP))
    low, high = plans["leaf"].circuit["calibration"]["nodes"][NODE]["argument"]
    assert -8.0 < low < high < 8.0


def test_arguments_that_leaf_answers_are_not_counted_as_outside(model, plans):
    """Of the text and of a population: only what the chosen range does not hold is outside."""
    ranges = walk(model, [wide_gelu.asked()], 1, rows={})
    found = calibrate(model, wide_gelu.TOKENS, hidden_states=SAMPLES)
    thor, leaf = (excesses(ranges, found, reaches=reaches) for reaches in ({}, {NODE: WIDE}))
    assert thor[ARGUMENT][0] > 1.0 >= leaf[ARGUMENT][0]
    assert all(leaf[name] == value for name, value in thor.items() if name != ARGUMENT)
    narrow = excesses(ranges, found, reaches={NODE: (-64.0, wide_gelu.UP - 1.0)})
    assert narrow[ARGUMENT][0] > 1.0
    assert plans["leaf"].population.outside <= plans["thor"].population.outside


@pytest.mark.parametrize("backend", ["plain", "sim"])
def test_thor_warns_and_leaf_answers(backend, model, plans):
    wanted = reference(model, *wide_gelu.asked()).trace["answer"]
    found = {}
    for name, plan in plans.items():
        (found[name],) = scheme_of(name).in_the_clear(plan, model, [wide_gelu.asked()], backend, 0, silent)
    assert "do not trust the answer" in found["thor"].warnings[0]
    assert not np.max(np.abs(found["thor"].anyway.vector - wanted)) < 1.0
    assert found["leaf"].warnings == ()
    assert np.max(np.abs(found["leaf"].vector - wanted)) < 0.005


@pytest.mark.parametrize("bounds", [1.3, 1.45, 1.6])
def test_leaf_warns_beyond_its_range(bounds, monkeypatch):
    """Its function comes back on a circle: as far outside as this, it would give a plausible value."""
    low, high = WIDE
    monkeypatch.setattr(wide_gelu, "UP", 0.5 * (low + high) + bounds * 0.5 * (high - low))
    model = wide_gelu.model()
    options = {"tokens": wide_gelu.TOKENS, "preset": "insecure_toy_n10", "hidden_states": SAMPLES}
    plan = tacita.plan(model, scheme="leaf", packing="rows", **options)
    usual, asked = (
        scheme_of("leaf").in_the_clear(plan, model, [sample], "plain", 0, silent)[0]
        for sample in (SAMPLES[0], wide_gelu.asked())
    )
    assert usual.trusted and not asked.trusted


def test_of_both_packings_the_quicker_one_can_be_asked_for(model, plans):
    """Leaf's blocks go by coefficients, unless rotations are asked for or found cheaper."""
    options = {"tokens": wide_gelu.TOKENS, "preset": "insecure_toy_n10", "hidden_states": SAMPLES}
    rows, auto = (tacita.plan(model, scheme="leaf", packing=p, **options) for p in ("rows", "auto"))
    assert (plans["leaf"].packing, plans["leaf"].coefficients) == ("coefficients", wide_gelu.TOKENS)
    assert (rows.packing, rows.coefficients) == ("rows", None)
    least = min(plan.prediction.seconds["evaluate"] for plan in (rows, plans["leaf"]))
    assert auto.prediction.seconds["evaluate"] == pytest.approx(least)
    with pytest.raises(InputError, match="scheme thor on packing 'coefficients'"):
        tacita.plan(model, scheme="thor", packing="coefficients", **options)


def test_where_no_polynomial_follows_there_is_a_refresh(model):
    """On [-200, 200] a series of degree 511 is not enough, and 250 harmonics are."""
    calibration = calibrate(model, wide_gelu.TOKENS, hidden_states=SAMPLES)
    wide = replace(calibration.nodes[NODE], argument=(-200.0, 200.0))
    calibration = replace(calibration, nodes={**calibration.nodes, NODE: wide})
    with pytest.raises(FitError):
        fit_circuit(calibration, model.config)
    specs = fit_circuit(calibration, model.config, functions=Functions(activation="either"))
    assert specs.function(NODE).function.refreshes and not specs.undecided


def test_the_placement_decides_and_the_plan_says_what(model):
    """A plan holds one function a node, and the one that its stages were placed with."""
    options = {"tokens": wide_gelu.TOKENS, "preset": "insecure_toy_n10", "hidden_states": SAMPLES}
    plan = tacita.plan(model, functions="either", **options)
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    assert not specs.undecided
    refreshed = {stage.name.removesuffix(".activate") for stage in plan.stages if stage.through}
    assert refreshed == {n for n in (NODE,) if specs.function(n).function.refreshes}
    others = [tacita.plan(model, functions=name, **options) for name in ("tacita", "leaf")]
    cheapest = min(other.prediction.seconds["evaluate"] for other in others)
    assert plan.prediction.seconds["evaluate"] == pytest.approx(cheapest)


def test_the_neurons_matter(model):
    """Without them the answer is another one: leaf does not answer rightly because they are weighed by 0."""
    hidden, mask = wide_gelu.asked()
    tensors = {name: np.array(value) for name, value in model.tensors.items()}
    narrow = next(name for name in tensors if name.endswith("0.output.dense.weight"))
    tensors[narrow][:, :2] = 0.0
    without = reference(from_tensors(model.config, tensors), hidden, mask).trace["answer"]
    assert np.max(np.abs(without - reference(model, hidden, mask).trace["answer"])) > 0.02


def test_usual_samples_are_answered_alike_by_both(model, plans):
    wanted = reference(model, *SAMPLES[0]).trace["answer"]
    for name, plan in plans.items():
        (found,) = scheme_of(name).in_the_clear(plan, model, SAMPLES[:1], "plain", 0, silent)
        assert found.warnings == () and np.max(np.abs(found.vector - wanted)) < 0.005
