"""Variants in whole circuits: both papers' functions and retrained models on plain and sim, in rows and
columns."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny
from circuits import build_batch_circuit, build_circuit
from greedy import run_greedily
from random_checkpoint import config_json, make_random_checkpoint, write_folder

from tacita.approx.functions import FITS, Functions
from tacita.approx.poly import is_constant
from tacita.checkpoint import from_tensors, load
from tacita.checkpoint.reference import reference
from tacita.errors import CheckpointError, InputError, PlanError
from tacita.layouts.columns import BatchShape
from tacita.layouts.registry import Shape
from tacita.models.retrained import Retrained
from tacita.packings.lowering import build
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import Calibration, calibrate
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

TOKENS = 16
POWERFORMER = Retrained("bpmax", "batch", 5, 5.0, (9e3, 8e3), ((0.9, 1.1), (1.3, 1.2)))
SPAN = 26  # levels: MOAI's forms take many


def retrained(variant: Retrained = POWERFORMER, **sizes):
    model = tiny.checkpoint(layers=2, **sizes)
    return from_tensors(replace(model.config, retrained=variant), model.tensors)


def prepared(model, functions=None, count=3):
    """(inputs, specs) calibrated on inputs of mixed lengths."""
    inputs = [tiny.inputs(model, TOKENS, 5 + 4 * i, seed=i) for i in range(count)]
    calibration = calibrate(model, TOKENS, hidden_states=inputs)
    return inputs, fit_circuit(
        calibration, model.config, Accuracy(1e-5, 1e-5, 1e-5, 1e-4, 1e-4, 1e-3), functions
    )


def answers(circuit, be, request):
    live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in request.items()}
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    return circuit.response.read([be.decrypt(ct) for ct in out["answer"]])


def error_in_rows(model, be, functions=None):
    inputs, specs = prepared(model, functions)
    circuit = build_circuit(model, specs, be.slots, TOKENS)
    found = [answers(circuit, be, circuit.request.pack([sample]))[0].values for sample in inputs]
    expected = [reference(model, *sample).logits for sample in inputs]
    return np.max(np.abs(np.array(found) - expected))


def error_in_columns(model, be, scheme, functions=None):
    inputs, specs = prepared(model, functions)
    circuit = build_batch_circuit(model, specs, BatchShape(be.slots, TOKENS), scheme)
    found = [a.values for a in answers(circuit, be, circuit.request.pack(inputs))[: len(inputs)]]
    expected = [reference(model, *sample).logits for sample in inputs]
    return np.max(np.abs(np.array(found) - expected))


def error_in_diagonals(model, be, functions):
    inputs, specs = prepared(model, functions)
    circuit = build(model, specs, Shape("multidiagonal", "hoisted", be.slots, TOKENS))
    found = [answers(circuit, be, circuit.request.pack([sample]))[0].values for sample in inputs]
    expected = [reference(model, *sample).logits for sample in inputs]
    return np.max(np.abs(np.array(found) - expected))


@pytest.mark.parametrize("variant", FITS)
def test_each_papers_functions_give_the_models_answer(variant):
    # MOAI's exponential has an error of its own, and leaf's GELU one on a range of 192
    tolerance = {"moai": 0.05, "leaf": 4e-3}.get(variant, 2e-3)
    model, functions = tiny.checkpoint(layers=2), Functions.of(variant)
    assert error_in_rows(model, PlainBackend(512, SPAN), functions) < tolerance
    if variant in ("leaf", "thor"):
        assert error_in_diagonals(model, PlainBackend(512, SPAN), functions) < tolerance
    if variant == "leaf":
        with pytest.raises(PlanError, match="packing columns computes no function by a bootstrap"):
            error_in_columns(model, PlainBackend(64, SPAN), "arion", functions)
        return
    assert error_in_columns(model, PlainBackend(64, SPAN), "arion", functions) < tolerance


@pytest.mark.parametrize("scheme", ["moai", "arion"])
def test_a_retrained_model_runs_in_columns_on_plain_and_sim(scheme):
    assert error_in_columns(retrained(), PlainBackend(64, 13), scheme) < 2e-3
    assert error_in_columns(retrained(), SimBackend(64, 13, inject=True), scheme) < 2e-2


@pytest.mark.parametrize(
    "variant",
    [
        POWERFORMER,
        replace(POWERFORMER, norm_variant="layer"),
        replace(POWERFORMER, attention_variant="softmax"),
    ],
)
def test_a_retrained_model_runs_in_rows(variant):
    assert error_in_rows(retrained(variant), PlainBackend(512, 13)) < 2e-3


def test_specs_of_a_retrained_model_are_exact_and_constant():
    model = retrained()
    _, specs = prepared(model)
    for i in range(2):
        attention = specs.attention(f"layer{i}.attention")
        assert attention.exp.error < 1e-12 and is_constant(attention.inverse)
        assert all(is_constant(specs.norm(f"layer{i}.norm{n}").rsqrt) for n in (1, 2))
        assert not is_constant(specs.function(f"layer{i}.feed_forward").function)
    assert CircuitSpecs.from_json(json.loads(json.dumps(specs.to_dict()))) == specs


def test_the_reference_of_bpmax_and_batch_normalisation():
    model = retrained()
    hidden, mask = tiny.inputs(model, TOKENS, 9)
    trace = reference(model, hidden, mask).trace
    weights = (trace["layer0.attention.scores"] + 5.0) ** 5 * mask / (9 * 9e3)
    name = "encoder.layer.0.attention.self.value"
    value = hidden @ model.tensors[f"{name}.weight"].T + model.tensors[f"{name}.bias"]
    mixed = np.einsum("hij,jhd->ihd", weights, value.reshape(TOKENS, 2, 8)).reshape(TOKENS, 16)
    np.testing.assert_allclose(trace["layer0.attention.context"], mixed, atol=1e-12)
    norm = "encoder.layer.0.output.LayerNorm"
    expected = (
        trace["layer0.norm2.centred"] / 1.1 * model.tensors[f"{norm}.weight"] + model.tensors[f"{norm}.bias"]
    )
    np.testing.assert_allclose(trace["layer0.norm2.result"], expected, atol=1e-12)
    other = np.where(mask[:, None] > 0, hidden, 3.0)
    np.testing.assert_allclose(
        reference(model, other, mask).logits, reference(model, hidden, mask).logits, atol=1e-12
    )


def test_ordinary_models_keep_their_hash_and_retrained_ones_have_another():
    plain, changed = tiny.checkpoint(layers=2), retrained()
    assert from_tensors(plain.config, plain.tensors).sha256 == plain.sha256 != changed.sha256
    assert retrained(replace(POWERFORMER, offset=4.0)).sha256 != changed.sha256


def test_a_folder_names_its_variants(tmp_path):
    model = make_random_checkpoint()
    folder = write_folder(model, tmp_path / "model")
    assert load(folder).config.retrained == Retrained()
    fields = {
        "attention_variant": "bpmax",
        "norm_variant": "batch",
        "attention_power": 5,
        "attention_offset": 5.0,
        "attention_denominators": [9e3, 8e3],
        "norm_deviations": [[0.9, 1.1], [1.3, 1.2]],
    }
    (folder / "config.json").write_text(json.dumps(config_json(model.config) | fields))
    assert load(folder).config.retrained == POWERFORMER
    for field, value, message in (
        ("attention_variant", "linear", "attention_variant 'linear'"),
        ("attention_power", 99, "attention_power is 99"),
        ("attention_denominators", [1.0], "1 denominators for 2 layers"),
        ("attention_denominators", None, "TypeError"),
        ("norm_deviations", [[1.0, -1.0], [1.0, 1.0]], "norm_deviations"),
    ):
        (folder / "config.json").write_text(json.dumps(config_json(model.config) | fields | {field: value}))
        with pytest.raises(CheckpointError, match=message):
            load(folder)


def test_unknown_variants_are_refused():
    with pytest.raises(InputError, match="no variant 'nexus' of exp"):
        Functions(exp="nexus")


def test_relu_has_one_approximation_in_all_variants():
    model = tiny.checkpoint(activation="relu")
    calibration: Calibration = calibrate(model, TOKENS, hidden_states=[tiny.inputs(model, TOKENS, 9)])
    goal = Accuracy(activation=0.05, limit=1e-3)
    found = [
        fit_circuit(calibration, model.config, goal, Functions.of(v)).function("layer0.feed_forward")
        for v in FITS
    ]
    assert found[0] == found[1] == found[2]
