"""Circuits of awkward shapes on the real engine at a toy ring, against the float reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny
from circuits import build_circuit
from encrypted import greedy_answers, toy

from tacita.approx import inverse

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET, TOKENS = "insecure_toy_n12", 16  # windows of 128 positions
SHAPES = {
    "one window": {"hidden": 32, "heads": 2, "ff": 64, "layers": 2},
    "two windows, mean of tokens": {"hidden": 192, "heads": 6, "ff": 160, "pooling": "mean", "classes": 0},
    "heads not powers of two": {"hidden": 60, "heads": 5, "ff": 50, "activation": "relu", "classes": 3},
    "raw [CLS]": {"hidden": 48, "heads": 3, "ff": 64, "pooling": "cls", "classes": 0},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_encrypted_circuit_equals_the_reference(shape, tmp_path):
    model = tiny.checkpoint(**SHAPES[shape])
    params = toy(PRESET)
    hidden, mask = tiny.inputs(model, TOKENS, 11)
    reference = tiny.run_reference(model, hidden, mask)
    specs = tiny.specs(model, reference, mask, 1e-4)
    circuit = build_circuit(model, specs, params.slots, TOKENS)
    (answer,) = greedy_answers(params, circuit, [(hidden, mask)], tmp_path)
    tolerance = 0.1 if "relu" in SHAPES[shape].values() else 0.01
    assert np.max(np.abs(answer.values - reference.logits)) < tolerance
    assert answer.sound()


def test_encrypted_division_in_two_parts_equals_the_reference(tmp_path):
    model = tiny.checkpoint(hidden=32, heads=2, ff=32, layers=1, pooling="mean", classes=3)
    params = toy(PRESET)
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
    (answer,) = greedy_answers(params, circuit, [(hidden, mask)], tmp_path)
    assert np.max(np.abs(answer.values - reference.logits)) < 0.02
