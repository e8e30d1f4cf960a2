"""What a limit of memory leaves for ciphertexts: model and circuit are counted, too."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest
from plans import real_plan

from bench.models.shapes import random_inputs, shaped_model
from tacita.errors import ResourceError
from tacita.evaluate.keyring import (
    IN_CIRCUIT,
    NUMBER,
    ciphertext_budget,
    circuit_bytes,
    fixed_bytes,
    measured_budget,
    predicted_memory,
    server_bytes,
)
from tacita.packings.lowering import build
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.fitting import fit_circuit
from tacita.plans.plan import Plan
from tacita.plans.scheme import first_shape
from tacita.resources import GB
from tacita.schemes.ciphertexts import too_large
from tacita.slots.linear import LinearPlan


def bert_base() -> Plan:
    """A plan of toy parameters that says it is of BERT-base's sizes."""
    plan = real_plan()
    sizes: dict[str, Any] = {
        "layers": 12,
        "hidden": 768,
        "heads": 12,
        "intermediate": 3072,
        "embeddings": None,
    }
    return replace(plan, model=replace(plan.model, **sizes))


def test_the_circuit_of_a_bert_base_is_counted() -> None:
    plan = bert_base()
    assert circuit_bytes(plan) == 12 * (4 * 768**2 + 2 * 768 * 3072) * (NUMBER + IN_CIRCUIT)
    assert server_bytes(plan) - plan.prediction.bytes["server_memory"] == circuit_bytes(plan)
    left = ciphertext_budget(plan, fixed_bytes(plan) / GB + 0.08)
    assert left == pytest.approx(0.07 * GB, rel=1e-3)
    assert predicted_memory(plan, 1.0) == GB
    with pytest.raises(ResourceError, match=r"keys and process alone need"):
        ciphertext_budget(plan, circuit_bytes(plan) / GB)
    assert any("keys, matrices and circuit need" in line for line in too_large(plan, 1.0))


def test_diagonals_take_no_more_than_is_counted() -> None:
    model = shaped_model("bert-tiny")
    calibration = calibrate(model, 16, hidden_states=random_inputs(128, 16, 4, 2))
    specs, shape = fit_circuit(calibration, model.config, tokens=16), first_shape("thor", 2048, 16, None)
    before = {id(one) for one in gc.get_objects() if isinstance(one, LinearPlan)}
    circuit = build(model, specs, shape)
    made = [one for one in gc.get_objects() if isinstance(one, LinearPlan) and id(one) not in before]
    held, weights = sum(one.vectors.nbytes + one.terms.nbytes for one in made), 2 * 12 * 128**2
    assert circuit.stages and weights * NUMBER <= held <= weights * IN_CIRCUIT


def test_what_a_process_holds_already_is_left_out_of_its_budget() -> None:
    assert measured_budget(1000, 1.0, None) == 1000
    assert measured_budget(10**8, 1.0, 9 * 10**8) == 10**8 - 10**8 // 8
    assert measured_budget(10**7, 1.0, 9 * 10**8) == 10**7  # as predicted
    assert measured_budget(10**8, 1.0, 9 * 10**8, 2 * 10**7) == 8 * 10**7  # room for large results
    assert measured_budget(10**8, 1.0, 2 * 10**9) == 10**8 // 4  # beyond the limit: the run goes on
