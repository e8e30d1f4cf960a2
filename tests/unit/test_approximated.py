"""A plan's error is that of the worst of many texts, not of the first two."""

from __future__ import annotations

import tiny

from tacita import api
from tacita.calibrate.calibration import Calibration
from tacita.calibrate.temper import tempered
from tacita.packings.specs import CircuitSpecs
from tacita.planning.circuit import TRIED, _spread
from tacita.planning.trial import largest_error

TOKENS, COUNT = 8, 24


def test_a_plan_predicts_the_worst_of_its_texts() -> None:
    model = tiny.checkpoint(hidden=16, heads=2, ff=32)
    samples = [tiny.inputs(model, TOKENS, 3 + n % 6, seed=n) for n in range(COUNT)]
    plan = planned(model, samples)
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    soft = tempered(model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
    errors = [largest_error(model, soft, specs, [sample]) for sample in samples]
    order = sorted(range(COUNT), key=errors.__getitem__)
    assert errors[order[-1]] > 1.5 * errors[order[1]], "no text is worse than others: this shows nothing"
    again = planned(model, [samples[i] for i in order])  # the worst is the last
    assert again.prediction.max_abs_error >= errors[order[-1]]


def planned(model, samples):
    return api.plan(model, tokens=TOKENS, preset="insecure_toy_n10", hidden_states=samples)


def test_texts_are_tried_in_one_distance_and_those_held_out_first() -> None:
    assert _spread(range(5)) == [0, 1, 2, 3, 4]
    assert len(_spread(range(300))) <= TRIED and _spread(range(300))[:3] == [0, 5, 10]
    held = _spread(range(1000))
    assert len(held) <= TRIED and all(i % 5 == 4 for i in held)
