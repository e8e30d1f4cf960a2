"""A layer with Powerformer's replacements, encrypted on a toy ring, against the float reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny
from circuits import build_circuit
from encrypted import greedy_answers, toy
from test_circuit_ckks import PRESET, TOKENS

from tacita.checkpoint import from_tensors
from tacita.checkpoint.reference import reference
from tacita.models.retrained import Retrained
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.fitting import fit_circuit

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


def test_bpmax_and_batch_normalisation_on_ciphertexts(tmp_path):
    plain = tiny.checkpoint(hidden=32, heads=2, ff=64, layers=1)
    params = toy(PRESET)
    model = from_tensors(
        replace(plain.config, retrained=Retrained("bpmax", "batch", 5, 5.0, (9e3,), ((1.0, 1.2),))),
        plain.tensors,
    )
    hidden, mask = tiny.inputs(model, TOKENS, 11)
    specs = fit_circuit(calibrate(model, TOKENS, hidden_states=[(hidden, mask)]), model.config)
    circuit = build_circuit(model, specs, params.slots, TOKENS)
    (answer,) = greedy_answers(params, circuit, [(hidden, mask)], tmp_path)
    assert np.max(np.abs(answer.values - reference(model, hidden, mask).logits)) < 0.01
    assert max(answer.disagreement, answer.leak) < 0.01
