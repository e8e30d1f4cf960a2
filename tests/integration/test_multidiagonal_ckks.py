"""THOR's packing on the real engine at a toy ring, against the float reference: several ciphertexts a tensor,
padded heads, and one with room to spare."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
from greedy import run_greedily
from test_circuit_ckks import PRESET, engine, native

from tacita.packings.lowered import build
from tacita.packings.shape import Shape

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
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    hidden, mask = tiny.inputs(model, TOKENS, 21)
    reference = tiny.run_reference(model, hidden, mask)
    specs = tiny.specs(model, reference, mask, 1e-4)
    circuit = build(model, specs, Shape("multidiagonal", "hoisted", params.slots, TOKENS))
    be, secret = engine(params, circuit, tmp_path)
    live = {
        name: tuple(native.encrypt(secret, v.astype(complex), be.max_level) for v in vectors)
        for name, vectors in circuit.request.pack([(hidden, mask)]).items()
    }
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    (answer,) = circuit.response.read([secret.decrypt(ct) for ct in out["answer"]])
    tolerance = 0.1 if "relu" in SHAPES[name].values() else 0.01
    assert np.max(np.abs(answer.values - reference.logits)) < tolerance
    assert answer.sound()
