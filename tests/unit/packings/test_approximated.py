"""A plan's error is a bound that one of a hundred texts exceeds, from many texts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tiny
from test_rows_estimate import peaked

from tacita import api
from tacita.blocks.tensors import TensorBlocks
from tacita.checkpoint import from_tensors
from tacita.layouts.registry import Shape
from tacita.packings.approximated import ApproximateTensors, approximated
from tacita.packings.conformance import CASES, circuit_of, specs_of, world_of
from tacita.packings.lowering import lowering_of
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibration import Calibration
from tacita.planning.calibrate.temper import tempered
from tacita.planning.survey import TRIED, _spread
from tacita.planning.trial import approximation_errors
from tacita.plans.error import OF_BATCHES, SHARE
from tacita.slots.plain import PlainBackend

TOKENS, COUNT = 8, 24


def test_a_plan_predicts_the_worst_of_its_texts() -> None:
    model = tiny.checkpoint(hidden=16, heads=2, ff=32)
    samples = [tiny.inputs(model, TOKENS, 3 + n % 6, seed=n) for n in range(COUNT)]
    plan = planned(model, samples)
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    soft = tempered(model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
    errors = [one.distance for sample in samples for one in approximation_errors(model, soft, specs, sample)]
    order = sorted(range(COUNT), key=errors.__getitem__)
    assert errors[order[-1]] > 1.5 * errors[order[1]], "no text is worse than others: this shows nothing"
    again = planned(model, [samples[i] for i in order])  # the worst is the last
    assert again.prediction.error.bound >= errors[order[-1]]


def test_rounds_after_row_estimates_are_those_of_plain() -> None:
    model = peaked(hidden=16, heads=2, ff=32, layers=2)
    samples = [tiny.inputs(model, TOKENS, 3 + n % 6, seed=n) for n in range(COUNT)]
    plan = planned(model, samples, packing="multidiagonal", functions="thor")
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    attention = specs.attention("layer0.attention")
    assert attention.rounds and attention.rows is not None
    soft = tempered(model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
    for hidden, mask in samples[:3]:
        found = approximated(soft, specs, hidden, mask)
        answer = api.classify_locally(replace(plan, decimals=6), model, hidden_states=hidden[mask > 0.0])
        assert not found.outside and np.abs(found.answer - answer.logits).max() < 1e-5


@pytest.mark.parametrize("rounds", [0, 1])
def test_rows_that_see_few_keys_are_those_of_a_circuit(rounds: int) -> None:
    """Their means are over all real keys of a text, also those that they do not see."""
    (case,) = (case for case in CASES if case.name == "reach, all")
    world, be = world_of(case, 16), PlainBackend(256, 400)
    build = partial(lowering_of, shape=Shape("rows", "hoisted", 256, 16))
    circuit, ((hidden, mask),) = circuit_of(world, build, rounds=rounds), world.samples
    packed = circuit.request.pack(world.samples).items()
    live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in packed}
    for stage in circuit.stages:
        live = stage.run(be, dict(live))
    (answer,) = circuit.response.read([be.decrypt(ct) for ct in live["answer"]])
    tensors = ApproximateTensors(world.weights, mask, specs_of(world, rounds=rounds))
    (wanted,) = case.forward(TensorBlocks(tensors), hidden)
    assert np.abs(answer.values - wanted).max() < 1e-9 and not tensors.outside


@pytest.mark.parametrize(
    ("scheme", "packing"), [("thor", "rows"), ("thor", "multidiagonal"), ("arion", "columns")]
)
def test_scores_of_eighty_nats_are_answered_in_rounds_and_not_tempered(scheme: str, packing: str) -> None:
    model = tiny.checkpoint(hidden=16, heads=2, ff=32, layers=2)
    queries = {f"encoder.layer.{i}.attention.self.query.weight" for i in range(2)}
    wide = {name: 6.0 * x if name in queries else x for name, x in model.tensors.items()}
    model = from_tensors(model.config, wide)
    samples = [tiny.inputs(model, TOKENS, 3 + n % 6, seed=n) for n in range(COUNT)]
    plan = planned(model, samples, scheme=scheme, packing=packing)
    found = Calibration.from_dict(plan.circuit["calibration"])
    low, high = found.attention("layer0.attention").scores
    assert high - low > 80.0 and {name: count > 1 for name, count in found.rounds.items()} == dict.fromkeys(
        ("layer0.attention", "layer1.attention"), True
    )
    assert set(np.ravel([*found.temperatures.values()])) == {1.0}
    for hidden, mask in samples[:3]:
        states = hidden[mask > 0.0]
        answer = api.classify_locally(plan, model, hidden_states=states, backend="sim")
        wanted = api.reference_logits(plan, model, hidden_states=states)
        assert np.abs(np.array(answer.logits) - wanted).max() <= plan.prediction.error.bound < 0.025


def test_a_text_outside_its_intervals_is_told_and_predicts_nothing() -> None:
    model = tiny.checkpoint(hidden=16, heads=2, ff=32)
    samples = [tiny.inputs(model, TOKENS, 3 + n % 6, seed=n) for n in range(COUNT)]
    plan = planned(model, samples)
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    hidden, mask = samples[0]
    far = 50.0 * hidden, mask
    assert approximated(model, specs, *far).outside
    assert approximation_errors(model, model, specs, far) == []
    (found,) = approximation_errors(model, model, specs, (hidden, mask))
    assert found.distance > 0.0


def test_a_batch_states_what_one_of_five_hundred_exceeds() -> None:
    model = tiny.checkpoint(hidden=16, heads=2, ff=32)
    samples = [tiny.inputs(model, TOKENS, 3 + n % 6, seed=n) for n in range(COUNT)]
    one, batch = (planned(model, samples, scheme=scheme).prediction.error for scheme in ("thor", "arion"))
    assert (one.share, batch.share) == (SHARE, OF_BATCHES)
    assert batch.texts == COUNT and str(batch).endswith(f"for 99.8 of 100 texts (from {COUNT} texts)")


def planned(model, samples, **how):
    return api.plan(model, tokens=TOKENS, preset="insecure_toy_n10", hidden_states=samples, **how)


def test_texts_are_tried_in_one_distance_and_those_held_out_first() -> None:
    assert _spread(range(5), TRIED) == [0, 1, 2, 3, 4]
    assert len(_spread(range(300), TRIED)) <= TRIED and _spread(range(300), TRIED)[:3] == [0, 3, 6]
    held = _spread(range(1000), TRIED)
    assert len(held) <= TRIED and all(i % 5 == 4 for i in held)
