"""The options of blocks on the real engine at a toy ring: little models of the packings' suite, placed with
bootstraps, encrypted, evaluated, decrypted."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from encrypted import make_engine, toy

from tacita.layouts.registry import Shape
from tacita.packings import executor
from tacita.packings.conformance import CASES, circuit_of, world_of
from tacita.packings.lowering import lowering_of
from tacita.planning.place.circuit import place_circuit
from tacita.plans.presets import PRESETS
from tacita.plans.prices.formulas import prices_of

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

TOKENS, INFO = 8, PRESETS["insecure_toy_n10"]
BUILDS: dict[str, Any] = {
    name: partial(lowering_of, shape=Shape(name, rotations, INFO.slots, TOKENS))
    for name, rotations in (("rows", "hoisted"), ("multidiagonal", "hoisted"), ("columns", "double"))
}
# rotary, a window, no means, no biases, a gate: of every token; the same of the first
NEWER = [case for case in CASES if case.name.startswith("newer")]


@pytest.mark.parametrize("packing", BUILDS)
@pytest.mark.parametrize("case", NEWER, ids=lambda case: case.name)
def test_all_options_at_once(case: Any, packing: str, tmp_path: Any) -> None:
    world = world_of(case, TOKENS)
    circuit = circuit_of(world, BUILDS[packing])
    placed = place_circuit(circuit, INFO, prices_of(INFO, None))
    engine = make_engine(toy(INFO.preset), placed.rotations, tmp_path)
    live = engine.request(circuit, world.samples, {**placed.placement.request, **placed.fixed_levels})
    answer = engine.read(circuit, executor.run(placed.stages, circuit.stages, engine.be, live))[0]
    hidden, mask = world.samples[0]
    wanted = world.floats((hidden, mask), lambda name, value: None)
    rows = mask > 0.0 if wanted.ndim == 2 else ...
    assert np.abs(answer.values - wanted)[rows].max() < 0.02 and answer.sound()
