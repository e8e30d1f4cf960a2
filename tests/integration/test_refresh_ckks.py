"""The scheme leaf on the real engine at a toy ring: planned, keys made, encrypted, evaluated, decrypted."""

from __future__ import annotations

import numpy as np
import pytest

import tacita
from tacita.checkpoint import embed
from tacita.models.reference import reference
from tacita.schemes.base import Place
from tacita.schemes.registry import scheme_of

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET, TOKENS = "insecure_toy_n12", 8
TEXTS = ["a film of quiet beauty", "a waste of time"]


def test_an_encrypted_run_through_refreshes_equals_the_float_model(tmp_path):
    model = tacita.load()
    plan = tacita.plan(model, scheme="leaf", tokens=TOKENS, preset=PRESET)
    assert [stage.name for stage in plan.stages if stage.through] == [
        f"layer{i}.feed_forward.activate" for i in range(model.config.layers)
    ]
    scheme = scheme_of(plan.scheme)
    with scheme.private(plan, model, Place(tmp_path, threads=1, allow_insecure=True)) as private:
        answers, _ = private.answer(TEXTS[:1], "")
    wanted = reference(model, *embed(model, TEXTS[0], TOKENS)).trace["answer"]
    assert answers[0].warnings == ()
    assert np.max(np.abs(answers[0].vector - wanted)) < 0.02
