"""THOR's packing on the real engine at a toy ring, against the float reference: several ciphertexts a tensor,
padded heads, and one with room to spare."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
from greedy import run_greedily
from test_circuit_ckks import PRESET, engine, native

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


def test_softmax_in_two_phases_equals_the_reference(tmp_path):
    """Every token in the first layer, the first alone in the second."""
    model = tiny.checkpoint(**SHAPES["one ciphertext, first token"])
    hidden, mask = tiny.inputs(model, TOKENS, 21)
    calibration = calibrate(model, TOKENS, hidden_states=[(hidden, mask)])
    specs = fit_circuit(calibration, model.config, None, Functions.of("thor"), tokens=TOKENS)
    assert all(specs.attention(f"layer{i}.attention").first for i in range(2))
    found = encrypted_answer(model, specs, hidden, mask, tmp_path)
    assert np.max(np.abs(found - tiny.run_reference(model, hidden, mask).logits)) < 0.02


def encrypted_answer(model, specs, hidden, mask, folder):
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    circuit = build(model, specs, Shape("multidiagonal", "hoisted", params.slots, TOKENS))
    be, secret = engine(params, circuit, folder)
    live = {
        name: tuple(native.encrypt(secret, v.astype(complex), be.max_level) for v in vectors)
        for name, vectors in circuit.request.pack([(hidden, mask)]).items()
    }
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    (answer,) = circuit.response.read([secret.decrypt(ct) for ct in out["answer"]])
    assert answer.sound()
    return answer.values
