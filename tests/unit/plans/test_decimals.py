"""Decimals of an answer follow from its noise: a plan is refused where even whole numbers would show it."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import tiny
from plans import TOKENS, real_plan

from tacita.api import plan as make_plan
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.errors import PlanError
from tacita.packings import executor
from tacita.planning import trial
from tacita.planning.request import PlanRequest
from tacita.planning.survey import NUMBERS, draws_of
from tacita.planning.trial import deviation, noise_of_numbers
from tacita.plans.answers import decimals_for, judge, least_noise, rounded, rounding_step, stated_noise
from tacita.plans.error import (
    FEWEST,
    MOST_DECIMALS,
    OF_BATCHES,
    QUIET,
    SHARE,
    ErrorBound,
    between,
    quiet,
    share_of,
    tolerance_bound,
)
from tacita.plans.plan import Plan
from tacita.plans.presets import PRESETS


def louder(factor: float) -> Checkpoint:
    """A model whose answers are so many times larger, and with them their noise."""
    model = tiny.checkpoint()
    scaled = {n: t * factor if n.startswith("classifier") else t for n, t in model.tensors.items()}
    return from_tensors(model.config, scaled)


@lru_cache
def plan_of(factor: float) -> Plan:
    samples = tuple(tiny.inputs(louder(factor), TOKENS, real, seed) for seed, real in enumerate((8, 5, 8)))
    return make_plan(
        louder(factor), PlanRequest(preset="insecure_toy_n10", tokens=TOKENS, hidden_states=samples)
    )


@pytest.mark.parametrize(("factor", "decimals"), [(1.0, 3), (3000.0, 1), (20000.0, 0)])
def test_large_answers_get_fewer_decimals(factor: float, decimals: int) -> None:
    plan = plan_of(factor)
    assert plan.decimals == decimals
    assert 10.0**-decimals >= QUIET * plan.noise
    assert decimals == MOST_DECIMALS or 10.0 ** -(decimals + 1) < QUIET * plan.noise
    assert math.frexp(plan.noise)[0] * 8 % 1 == 0
    assert plan.step == max(QUIET * plan.noise, 0.001)  # 1.95e-3 and not 0.01, say
    assert dataclasses.replace(plan, noise=0.0, decimals=12).step == 1e-12


@pytest.mark.parametrize("noise", [2.0**-power for power in range(6, 16)])
def test_logits_are_rounded_as_finely_as_is_quiet_at_1_2_or_5(noise: float) -> None:
    step = between(noise, decimals_for(noise))
    assert QUIET * noise <= step <= 10.0 ** -decimals_for(noise)
    assert step < 2.5 * QUIET * noise or step == 10.0**-MOST_DECIMALS


@pytest.mark.parametrize("noise", [2.2e-4, 3.1e-4, 6e-3])
@pytest.mark.parametrize("length", [None, 7.0])
def test_a_vector_is_rounded_to_little_more_than_64_times_its_noise(noise: float, length: float | None):
    """Before: to 80 to 160 times a power of two above it."""
    model = dataclasses.replace(real_plan().model, labels=(), normalise=length is not None)
    stated = stated_noise(noise, PRESETS["n16"], 2.0)
    plan = dataclasses.replace(real_plan(), model=model, noise=stated, decimals=decimals_for(stated))
    vector = np.full(4, (length or 1.0) / 2)
    step = rounding_step(plan, vector) * (length or 1.0)
    assert QUIET * noise <= QUIET * stated <= step * (1 + 1e-9) <= 1.1 * QUIET * stated <= 1.4 * QUIET * noise
    assert np.allclose(np.array(rounded(plan, vector)) / rounding_step(plan, vector) % 1, 0, atol=1e-6)


def test_logits_at_a_half_are_shown_with_one_place() -> None:
    plan = dataclasses.replace(real_plan(), noise=2.0**-7, decimals=0)
    assert judge(plan, np.array((1.3, -1.2))).anyway.logits == (1.5, -1.0)  # beyond the plan's bound
    assert judge(dataclasses.replace(plan, gap=0.1), np.array((1.3, -1.2))).anyway.logits == (1.0, -1.0)


def test_noise_is_the_deviation_of_the_noisiest_token():
    """Among answers of 400 numbers a token, real tokens only."""
    rng, exact, mask = np.random.default_rng(0), np.zeros((6, 400)), np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    sizes = np.array([1e-4, 2e-4, 1e-2, 1e-4, 1.0, 1.0])
    noisy = sizes[:, None] * rng.normal(size=exact.shape)
    assert deviation([noisy], [exact], [mask]) == pytest.approx(1e-2, rel=0.3)
    assert deviation([noisy[0], noisy[2]], [exact[0], exact[2]], [mask, mask]) == pytest.approx(1e-2, rel=0.3)


def test_of_two_numbers_the_larger_distance_counts():
    assert deviation([np.array([0.5, -0.25])], [np.zeros(2)], [np.ones(3)]) == 0.5


def test_the_noise_of_compared_logits_is_that_of_the_noisiest_text_of_a_request() -> None:
    """Four texts have their slots in turn, and the last one has one number less."""
    quiet, noise = np.full((8, 4), 0.5), np.array([1e-6, 1e-6, 8e-6, 1e-6])
    quiet[7, 3] = 0.0
    noisy = quiet + noise * np.where(np.arange(8)[:, None] % 2, 1.0, -1.0)
    assert noise_of_numbers(noisy.reshape(-1), quiet.reshape(-1), 4) == pytest.approx(8e-6)
    assert noise_of_numbers(noisy[:, 3], quiet[:, 3], 1) == pytest.approx(1e-6)


def test_noise_is_drawn_until_answers_have_numbers_enough() -> None:
    config, asked = tiny.checkpoint().config, PlanRequest()
    assert draws_of(config, asked, 3) * 3 * config.outputs >= NUMBERS > 3 * config.outputs
    assert draws_of(config, asked, 0) <= NUMBERS, "without a sample"
    assert draws_of(config, asked, NUMBERS) == 1, "a batch holds as many"
    assert draws_of(tiny.checkpoint(classes=NUMBERS // 3).config, asked, 3) == 1
    assert draws_of(config, dataclasses.replace(asked, quick=True), 1) == 1


@lru_cache
def simulations() -> tuple[Checkpoint, list[tuple[Any, ...]], trial.Simulation]:
    """A model of two layers, what its plan simulates, and what that shows."""
    model, calls, run = tiny.checkpoint(layers=2), list[tuple[Any, ...]](), trial.run_simulation
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "run_simulation", lambda *how: calls.append(how) or run(*how))
        states = tuple(tiny.inputs(model, TOKENS, real, seed) for seed, real in enumerate((8, 5, 8)))
        make_plan(model, PlanRequest(preset="insecure_toy_n10", tokens=TOKENS, hidden_states=states))
    return model, calls, run(*calls[0])


def test_each_text_and_draw_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: three texts met the same noise. What is drawn again begins at the last attention."""
    model, (call,), noise = simulations()
    seeds, stages, simulated, after = list[int](), list[str](), trial.SimBackend, executor._after
    monkeypatch.setattr(
        trial, "SimBackend", lambda *sizes, **how: seeds.append(how["seed"]) or simulated(*sizes, **how)
    )
    monkeypatch.setattr(executor, "_after", lambda step, *how: stages.append(step.name) or after(step, *how))
    assert trial.run_simulation(*call) == noise
    draws, counts = draws_of(model.config, PlanRequest(), 3), Counter(stages)
    assert seeds == [*range(3 * draws)]
    assert draws > 1
    assert counts["layer0.attention.scores"] == 3 * 2 and counts["layer1.attention.scores"] == 3 * (1 + draws)
    once = trial.run_simulation(*call[:-1], 1)
    assert once.noise <= noise.noise and len(once.errors) == len(noise.errors) == 3


def test_answers_that_are_all_noise_are_not_planned() -> None:
    with pytest.raises(PlanError, match="rounded to whole numbers they would still show it") as caught:
        plan_of(1e6)
    assert "larger scale" in caught.value.hint


def test_noise_is_in_the_plans_hash() -> None:
    assert dataclasses.replace(real_plan(), noise=real_plan().noise / 2).hash != real_plan().hash


def test_noise_is_noise_alone() -> None:
    """Far below the error of the approximations, which is no secret."""
    assert real_plan().noise < real_plan().prediction.error.bound / QUIET


@pytest.mark.parametrize(("noise", "decimals"), [(0.0, 3), (2.0**-16, 3), (2.0**-15, 2), (2.0**-6, 0)])
def test_the_step_is_at_least_64_times_the_noise(noise: float, decimals: int) -> None:
    assert decimals_for(noise) == decimals
    assert quiet(decimals, noise)
    assert not quiet(decimals + 1, noise)
    assert not quiet(-1, noise)


def test_a_leveled_ring_with_large_answers_has_no_decimals_whatever_was_measured() -> None:
    """Scale 2^38: a rescaling alone leaves 2^-27 of the answer's bound."""
    small = PRESETS["n13_leveled"]
    assert math.log2(least_noise(small, 1.0)) == pytest.approx(-28.6, abs=0.2)
    assert decimals_for(stated_noise(0.0, small, 1.0)) == 3
    assert decimals_for(stated_noise(0.0, small, 2.0**14)) == 2
    with pytest.raises(PlanError):
        decimals_for(stated_noise(0.0, small, 2.0**24))


@dataclasses.dataclass(frozen=True)
class Head:
    """As much of a plan of either kind as an answer is judged by."""

    decimals: int = 3
    step: float = 0.001
    logit_step: float = 0.001
    answer: float = 10.0
    labels: tuple[str, ...] = ("L0", "L1")
    normalise: bool = False
    task: str = "text"
    problem: str = "single_label"


@pytest.mark.parametrize("plan", [real_plan(), Head()], ids=["ciphertexts", "any other"])
def test_the_label_is_that_of_the_rounded_logits_and_of_equals_the_first(plan: Plan | Head) -> None:
    """Before: a difference far below the last decimal chose the label, and so showed noise."""
    assert plan.decimals == 3
    for values in ((1.0001, 1.0004), (1.0004, 1.0001), (1.0, 1.0)):
        answer = judge(plan, np.array(values)).anyway
        assert answer.logits == (1.0, 1.0)
        assert answer.label == "L0"
    assert judge(plan, np.array((1.0004, 1.0006))).anyway.label == "L1"


def test_an_answer_is_doubted_by_its_size_its_checks_and_what_is_no_number() -> None:
    assert judge(Head(), np.array((1.0, 10.0))).warnings == ()
    large = judge(Head(), np.array((1.0, -10.1)))
    assert large.warnings[0].endswith("beyond its calibrated bound of 10.0; do not trust the answer")
    unsound = judge(Head(), np.array((1.0, 2.0)), sound=False)
    assert "the response fails its own checks" in unsound.warnings[0]
    nothing = judge(Head(normalise=True, labels=()), np.array((np.nan, 2.0)))
    for answer, label, logits in (
        (large, "L0", (1.0, -10.1)),
        (unsound, "L1", (1.0, 2.0)),
        (nothing, None, (0.0, 1.0)),
    ):
        assert (answer.label, answer.logits, answer.trusted, len(answer.warnings)) == (None, (), False, 1)
        assert "no answer" in repr(answer)
        none = {"label": None, "logits": None, "warnings": list(answer.warnings), "trusted": False}
        assert answer.to_json() == none
        assert (answer.anyway.label, answer.anyway.logits, answer.anyway.trusted) == (label, logits, False)


def test_steps_of_rounding_as_large_as_the_answers_are_said() -> None:
    (coarse,) = judge(Head(logit_step=1.0, answer=2.5), np.array((1.4, 0.4))).warnings
    assert "rounded to multiples of 1, and no answer exceeds 2.5" in coarse
    assert judge(Head(logit_step=0.01, answer=2.5), np.array((1.4, 0.4))).warnings == ()
    normalised = Head(step=1.0, answer=2.5, normalise=True, labels=())
    nothing = judge(normalised, np.array((0.4, 0.3, 0.4, -0.4)))  # a step of 1 leaves nothing of length 1
    assert set(nothing.logits) == {0.0}
    assert "rounded to multiples of 1.4, and the mean entry is 0.5" in nothing.warnings[0]
    longer = Head(step=1.0, answer=200.0, normalise=True, labels=())
    assert judge(longer, np.array((140.0, 40.0))).warnings == ()  # a long vector has finer steps


def test_a_label_that_another_one_equals_is_said() -> None:
    head = Head(logit_step=0.1, answer=2.5)
    (tied,) = judge(head, np.array((1.41, 1.39))).warnings
    assert tied.startswith("2 labels have the largest logit as it is rounded")
    assert judge(head, np.array((1.41, 1.28))).warnings == ()
    assert judge(dataclasses.replace(head, problem="multi_label"), np.array((1.41, 1.39))).warnings == ()
    assert len(judge(head, np.array((2.6, 2.6))).warnings) == 1  # beyond its bound: nothing is told of it


@pytest.mark.parametrize("step", [0.9, 1.1])
@pytest.mark.parametrize("normalise", [False, True])
def test_a_step_above_a_tenth_of_the_mean_entry_is_said(step: float, normalise: bool) -> None:
    """One entry of 100 says nothing of the others, of which nothing is left."""
    head = Head(step=step, logit_step=step, answer=200.0, normalise=normalise, labels=())
    warnings = judge(head, np.array((100.0, *[-0.9] * 10, 1.0))).warnings
    assert [("mean entry" in warning) for warning in warnings] == ([True] if step > 1.0 else [])


# The stated error is exceeded by one of a hundred texts at most, of a batch by one of five hundred, whatever
# the texts it rests on.

QUANTILES = {  # where one of a hundred is left, and one of five hundred
    SHARE: {"normal": 2.5758, "exponential": 4.6052, "lognormal": 10.240},
    OF_BATCHES: {"normal": 3.0902, "exponential": 6.2146, "lognormal": 17.783},
}


def drawn(name: str, size: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.abs(getattr(rng, f"standard_{name}" if name != "lognormal" else name)(size=size))


@pytest.mark.parametrize("texts", [50, 100, 300])
@pytest.mark.parametrize("name", QUANTILES[SHARE])
@pytest.mark.parametrize("share", QUANTILES)
def test_nineteen_of_twenty_bounds_leave_the_stated_share(share: float, name: str, texts: int) -> None:
    """The largest error of 100 texts, which a plan stated before, fails in six of ten cases."""
    least = QUANTILES[share][name]
    bounds = np.array([tolerance_bound([*errors], share) for errors in drawn(name, (400, texts))])
    enough = 0.93 if name != "lognormal" else {SHARE: 0.8, OF_BATCHES: 0.5}[share]
    assert np.mean(bounds >= least) >= enough
    assert np.median(bounds) < 1.8 * least


def test_the_largest_error_that_was_seen_is_within_the_bound() -> None:
    assert tolerance_bound([*np.full(99, 0.01), 0.21]) >= 0.21


def test_few_texts_state_no_share() -> None:
    assert (share_of(FEWEST - 1, 64), share_of(FEWEST, 1), share_of(FEWEST, 64)) == (None, SHARE, OF_BATCHES)
    few, many, batch = (ErrorBound(0.5, FEWEST - (not share), share) for share in (None, SHARE, OF_BATCHES))
    assert str(few) == "at most 0.5000 of 19 texts, too few to bound others"
    assert str(many) == "at most 0.5000 for 99 of 100 texts (from 20 texts)"
    assert str(batch) == "at most 0.5000 for 99.8 of 100 texts (from 20 texts)"
    assert tolerance_bound([0.1, 0.3, 0.2]) == 0.3
