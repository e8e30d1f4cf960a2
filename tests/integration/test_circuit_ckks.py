"""Circuits of awkward shapes on the real engine at a toy ring, against the float reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny
from circuits import build_circuit
from greedy import run_greedily

from tacita.approx import inverse
from tacita.slots.ckks import CkksBackend
from tacita.slots.sim import SimBackend

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET, TOKENS = "insecure_toy_n12", 16  # windows of 128 positions
SHAPES = {
    "one window": {"hidden": 32, "heads": 2, "ff": 64, "layers": 2},
    "two windows, mean of tokens": {"hidden": 192, "heads": 6, "ff": 160, "pooling": "mean", "classes": 0},
    "heads not powers of two": {"hidden": 60, "heads": 5, "ff": 50, "activation": "relu", "classes": 3},
    "raw [CLS]": {"hidden": 48, "heads": 3, "ff": 64, "pooling": "cls", "classes": 0},
}


def engine(params, circuit, folder):
    """(backend, secret key) with the keys that a greedy run of the circuit uses."""
    sim = SimBackend(params.slots, params.max_level)
    live = {name: tuple(sim.input() for _ in range(count)) for name, count in circuit.request.counts.items()}
    run_greedily(sim, circuit.stages, live, fixed=circuit.fixed)
    paths = [str(folder / name) for name in ("secret.key", "evaluation.keys")]
    rotations = sorted(sim.rotation_levels.items())
    native.keygen(params, rotations, *paths, lambda _done, _total: None)
    secret = native.SecretKey.load(paths[0], params)
    keys = native.EvaluationKeys.load(paths[1], params, rotations)
    return CkksBackend(native.Evaluator(params, keys, 1)), secret


@pytest.mark.parametrize("shape", SHAPES)
def test_encrypted_circuit_equals_the_reference(shape, tmp_path):
    model = tiny.checkpoint(**SHAPES[shape])
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    hidden, mask = tiny.inputs(model, TOKENS, 11)
    reference = tiny.run_reference(model, hidden, mask)
    specs = tiny.specs(model, reference, mask, 1e-4)
    circuit = build_circuit(model, specs, params.slots, TOKENS)
    be, secret = engine(params, circuit, tmp_path)
    live = {
        name: tuple(native.encrypt(secret, v.astype(complex), be.max_level) for v in vectors)
        for name, vectors in circuit.request.pack([(hidden, mask)]).items()
    }
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    (answer,) = circuit.response.read([secret.decrypt(ct) for ct in out["answer"]])
    tolerance = 0.1 if "relu" in SHAPES[shape].values() else 0.01
    assert np.max(np.abs(answer.values - reference.logits)) < tolerance
    assert answer.sound()


def test_encrypted_division_in_two_parts_equals_the_reference(tmp_path):
    model = tiny.checkpoint(hidden=32, heads=2, ff=32, layers=1, pooling="mean", classes=3)
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    hidden, mask = tiny.inputs(model, TOKENS, 11)
    reference = tiny.run_reference(model, hidden, mask)
    specs = tiny.specs(model, reference, mask, 1e-3)
    node = specs.attention("layer0.attention")
    high = node.inverse.interval[1]
    wide = replace(node, inverse=inverse.fit((5e-6 * high, high), 1e-2))
    circuit = build_circuit(
        model, replace(specs, nodes={**specs.nodes, "layer0.attention": wide}), params.slots, TOKENS
    )
    assert "layer0.attention.exp" not in [stage.name for stage in circuit.stages]
    be, secret = engine(params, circuit, tmp_path)
    live = {
        name: tuple(native.encrypt(secret, v.astype(complex), be.max_level) for v in vectors)
        for name, vectors in circuit.request.pack([(hidden, mask)]).items()
    }
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    (answer,) = circuit.response.read([secret.decrypt(ct) for ct in out["answer"]])
    assert np.max(np.abs(answer.values - reference.logits)) < 0.02
