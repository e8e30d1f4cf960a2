"""THOR's packing on the real engine at a toy ring, against the float reference: several ciphertexts a tensor,
padded heads, and one with room to spare."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
from encrypted import greedy_answers, toy
from test_circuit_ckks import PRESET

from tacita.approx.functions import Functions
from tacita.layouts.registry import Shape
from tacita.packings.lowering import build
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.fitting import fit_circuit

pytestmark = pytest.mark.native
TOKENS = 32  # 2^11 slots
SHAPES = {
    "one ciphertext, first token": {"hidden": 32, "heads": 2, "ff": 64, "layers": 2},
    "two ciphertexts, mean of tokens": {
        "hidden": 128,
        "heads": 4,
        "ff": 160,
        "pooling": "mean",
        "classes": 0,
    },
    "heads and sizes that are padded": {
        "hidden": 36,
        "heads": 3,
        "ff": 50,
        "activation": "relu",
        "classes": 3,
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_encrypted_circuit_equals_the_reference(name, tmp_path):
    model = tiny.checkpoint(**SHAPES[name])
    hidden, mask = tiny.inputs(model, TOKENS, 21)
    reference = tiny.run_reference(model, hidden, mask)
    specs = tiny.specs(model, reference, mask, 1e-4)
    tolerance = 0.1 if "relu" in SHAPES[name].values() else 0.01
    found = encrypted_answer(model, specs, hidden, mask, tmp_path)
    assert np.max(np.abs(found - reference.logits)) < tolerance


@pytest.mark.parametrize(
    ("packing", "rotations", "preset"),
    [("multidiagonal", "hoisted", PRESET), ("columns", "double", "insecure_toy_n8")],
)
def test_softmax_in_rounds_equals_the_reference(packing, rotations, preset, tmp_path):
    """Every token in the first layer, the first alone in the second. Of columns the first stage refreshes,
    and there are as many in a small ring."""
    model = tiny.checkpoint(**SHAPES["one ciphertext, first token"])
    hidden, mask = tiny.inputs(model, TOKENS, 21)
    calibration = calibrate(model, TOKENS, hidden_states=[(hidden, mask)])
    specs = fit_circuit(calibration, model.config, None, Functions.of("thor"), tokens=TOKENS)
    assert all(specs.attention(f"layer{i}.attention").rounds for i in range(2))
    found = encrypted_answer(model, specs, hidden, mask, tmp_path, packing, rotations, preset)
    assert np.max(np.abs(found - tiny.run_reference(model, hidden, mask).logits)) < 0.02


def encrypted_answer(
    model, specs, hidden, mask, folder, packing="multidiagonal", rotations="hoisted", preset=PRESET
):
    params = toy(preset)
    circuit = build(model, specs, Shape(packing, rotations, params.slots, TOKENS))
    answer, *_ = greedy_answers(params, circuit, [(hidden, mask)], folder)
    assert answer.sound()
    return answer.values
