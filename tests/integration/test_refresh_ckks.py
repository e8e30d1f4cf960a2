"""The scheme leaf on the real engine at a toy ring: planned, keys made, encrypted, evaluated, decrypted."""

from __future__ import annotations

import numpy as np
import pytest
import wide_gelu
from encrypted import planned_answers

import tacita
from tacita.checkpoint import embed
from tacita.checkpoint.reference import reference
from tacita.plans.answers import judge
from tacita.schemes.base import Place
from tacita.schemes.registry import scheme_of

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET, TOKENS = "insecure_toy_n12", 8
TEXTS = ["a film of quiet beauty", "a waste of time"]


@pytest.mark.parametrize("packing", ["rows", "coefficients"])
def test_an_encrypted_run_through_refreshes_equals_the_float_model(packing, tmp_path):
    """By coefficients both maps of a block of all tokens refresh; the last layer's is of one vector."""
    model = tacita.load()
    plan = tacita.plan(model, scheme="leaf", packing=packing, tokens=TOKENS, preset=PRESET)
    refreshing = [f"layer{i}.feed_forward.activate" for i in range(model.config.layers)]
    if packing == "coefficients":
        refreshing.insert(1, "layer0.feed_forward.contract")
    assert [stage.name for stage in plan.stages if stage.through] == refreshing
    assert plan.coefficients == (TOKENS if packing == "coefficients" else None)
    scheme = scheme_of(plan.scheme)
    with scheme.private(plan, model, Place(tmp_path, threads=1, allow_insecure=True)) as private:
        answers, _ = private.answer(TEXTS[:1], "")
    wanted = reference(model, *embed(model, TEXTS[0], TOKENS)).trace["answer"]
    assert answers[0].warnings == ()
    assert np.max(np.abs(answers[0].vector - wanted)) < 0.02


@pytest.fixture(scope="module")
def wide_model():
    return wide_gelu.model()


@pytest.mark.parametrize("scheme", ["thor", "leaf"])
def test_inputs_of_gelu_that_calibration_did_not_show(scheme, wide_model, tmp_path):
    """Encrypted: thor's response fails its checks, leaf's is right."""
    samples = [wide_gelu.usual(seed) for seed in range(60)]
    options = {"tokens": wide_gelu.TOKENS, "preset": "insecure_toy_n10", "hidden_states": samples}
    plan = tacita.plan(wide_model, scheme=scheme, **options)
    (found,) = planned_answers(plan, wide_model, [wide_gelu.asked()], tmp_path)
    answer = judge(plan, found.values, sound=found.sound())
    wanted = reference(wide_model, *wide_gelu.asked()).trace["answer"]
    if scheme == "thor":
        assert "do not trust the answer" in answer.warnings[0]
    else:
        assert answer.warnings == ()
        assert np.max(np.abs(answer.vector - wanted)) < 0.005
