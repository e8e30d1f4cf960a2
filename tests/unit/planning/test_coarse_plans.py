"""Answers that noise makes coarse are planned once more, with a round more in every softmax.

Most texts here have exponentials that are far smaller than what their slots are scaled for, which is those of
one loud text: a bootstrap's noise is then a good part of them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest
import tiny

from tacita import api
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.errors import NoiseError
from tacita.planning import pipeline
from tacita.planning.calibrate.calibration import Calibration
from tacita.planning.calibrate.temper import enough_rounds
from tacita.planning.request import PlanRequest
from tacita.planning.trial import TextError, ties
from tacita.plans.answers import judge
from tacita.plans.plan import Plan

TOKENS, NAME = 8, "layer0.attention"
QUIET, WIDE, WIDER = 1.0, 2.7, 3.1  # of the loud text; the planner's rounds are none, none and one


@lru_cache
def model(factor: float = 1.0, *, vectors: bool = False) -> Checkpoint:
    """A classifier, its logits so many times larger; or one that answers with the mean of its rows."""
    made = tiny.checkpoint(classes=0, pooling="mean") if vectors else tiny.checkpoint()
    return from_tensors(
        made.config, {n: t * factor if n.startswith("classifier") else t for n, t in made.tensors.items()}
    )


def with_bias(checkpoint: Checkpoint, bias: float) -> Checkpoint:
    tensors = {n: t + bias * (n == "classifier.bias") for n, t in checkpoint.tensors.items()}
    return from_tensors(checkpoint.config, tensors)


def plan_of(checkpoint: Checkpoint, loud: float, texts: int = 4, **how: str) -> Plan:
    samples = [tiny.inputs(checkpoint, TOKENS, (8, 5, 8, 6)[seed % 4], seed) for seed in range(texts)]
    states = (*samples[:-1], (loud * samples[-1][0], samples[-1][1]))
    sizes = {"preset": "insecure_toy_n10", "tokens": TOKENS, "salt": "00" * 32}
    return api.plan(checkpoint, PlanRequest(hidden_states=states, **sizes, **how))


def rounds(plan: Plan) -> int:
    return Calibration.from_dict(plan.circuit["calibration"]).rounds.get(NAME, 0)


def warned(plan: Plan) -> bool:
    return bool(judge(plan, np.array((0.3, -0.2))).warnings)


@pytest.mark.parametrize(
    ("scheme", "packing"), [("thor", "rows"), ("thor", "multidiagonal"), ("arion", "columns")]
)
def test_coarse_answers_take_a_round_more(scheme: str, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finer = plan_of(model(), WIDER, scheme=scheme, packing=packing)
    monkeypatch.setattr(pipeline, "can_bootstrap", lambda ring: False)
    coarse = plan_of(model(), WIDER, scheme=scheme, packing=packing)
    assert [(rounds(plan), warned(plan)) for plan in (coarse, finer)] == [(1, True), (2, False)]
    assert finer.noise < 0.02 * coarse.noise
    for seed, real in enumerate((8, 5)):
        states, mask = tiny.inputs(model(), TOKENS, real, seed)
        answer = api.classify_locally(finer, model(), hidden_states=states[mask > 0.0], backend="sim")
        wanted = api.reference_logits(finer, model(), hidden_states=states[mask > 0.0])
        assert not answer.warnings and np.abs(np.array(answer.logits) - wanted).max() < 0.02


def test_a_first_round_is_that_of_functions_thor_which_stays_as_it_is_named() -> None:
    plan = plan_of(model(), WIDE)
    assert rounds(plan) == 1 and plan.hash == plan_of(model(), WIDE, functions="thor").hash
    named = plan_of(model(), WIDER, functions="thor")
    assert rounds(named) == 1 and warned(named)


def test_answers_that_are_fine_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, calls = pipeline._plan_of, list[bool]()

    def counted(*how):
        plan, coarse = made(*how)
        calls.append(coarse)
        return plan, coarse

    monkeypatch.setattr(pipeline, "_plan_of", counted)
    assert rounds(plan_of(model(), QUIET)) == 0 and calls == [False]
    assert rounds(plan_of(model(), WIDE)) == 1 and calls == [False, True, False]


def test_vectors_take_a_round_where_it_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of this model of one layer is a quarter of its seconds."""
    coarse = plan_of(model(vectors=True), WIDE)
    monkeypatch.setattr(pipeline, "MOST_SECONDS", 1.5)
    finer = plan_of(model(vectors=True), WIDE)
    assert (rounds(coarse), rounds(finer)) == (0, 1) and finer.logit_step < 0.1 * coarse.logit_step
    assert 1.1 < finer.prediction.seconds["evaluate"] / coarse.prediction.seconds["evaluate"] < 1.5


def test_labels_that_rounding_would_decide_take_a_round_more() -> None:
    """Logits of 5 and more, a few tenths apart: no answer is coarse beside the largest."""
    checkpoint = with_bias(model(), 5.0)
    few, many = (plan_of(checkpoint, WIDE, texts) for texts in (4, 24))
    assert (rounds(few), rounds(many)) == (0, 1) and many.logit_step < 0.2 * few.logit_step
    assert few.answer > 10 * few.logit_step


@pytest.mark.parametrize(
    ("logits", "how", "share"),
    [
        ([(0.0, 0.4), (0.4, 0.35)], {}, 0.5),
        ([(0.0, 0.4), (0.4, 0.35)], {"problem": "multi_label"}, 0.25),
        ([(0.0, 0.4), (0.4, 0.35)], {"problem": "regression"}, 0.0),
        ([(0.4,), (0.2,)], {"problem": "regression", "labels": ("relevance",)}, 9 / 19),
        ([(0.0, 0.4), (0.4, 0.35)], {"task": "span"}, 0.0),
    ],
)
def test_ties_are_choices_within_a_step(
    logits: list[tuple[float, ...]], how: dict[str, object], share: float
) -> None:
    plan = plan_of(model(), QUIET)
    plan = replace(plan, model=replace(plan.model, **how))
    plan = replace(plan, decimals=1, noise=1e-3)
    assert plan.logit_step == 0.1
    texts = tuple(TextError(0.0, 1.0, np.array([each])) for each in logits for _ in range(10))
    tried = SimpleNamespace(texts=texts)
    assert ties(plan, tried) == pytest.approx(share)
    assert ties(plan, SimpleNamespace(texts=texts[:19])) == 0.0


def test_answers_that_would_be_all_noise_have_a_plan_in_rounds() -> None:
    with pytest.raises(NoiseError, match="rounded to whole numbers they would still show it"):
        plan_of(model(64.0), WIDER, functions="thor")
    assert rounds(plan_of(model(64.0), WIDER)) == 2


def test_a_round_more_is_enough_by_itself_and_never_more_than_the_most() -> None:
    """Exponentials that nobody bootstraps may be fainter than those of a round."""
    nodes = {"a": SimpleNamespace(means=tuple((math.exp(nats), 1.0) for nats in (-20.0, -14.0, -7.0, -3.0)))}
    chosen = [enough_rounds({"a": fewest}, nodes, 3, more=1) for fewest in range(4)]
    assert enough_rounds({"a": 0}, nodes, 3) == {} and chosen == [{"a": k} for k in (2, 3, 3, 3)]
