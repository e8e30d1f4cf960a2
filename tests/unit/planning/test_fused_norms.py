"""Norms that a batch leaves to its feed-forwards: chosen where two blocks then fit between two bootstraps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny

from bench.models.shapes import normal_inputs, random_model
from tacita.checkpoint import Checkpoint
from tacita.layouts.registry import Shape
from tacita.packings.lowering import build
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import survey
from tacita.planning.calibrate.temper import tempered
from tacita.planning.circuit import Built, with_fused_norms
from tacita.planning.fitting import fit_circuit
from tacita.planning.place.circuit import Placed, place_circuit
from tacita.plans.presets import PRESETS
from tacita.plans.prices.cost import Prices


def planned(
    model: Checkpoint, specs: CircuitSpecs, tokens: int, levels: int
) -> tuple[Placed, Placed, list[str]]:
    """The placements of a batch on so many levels without and with fused norms, and the norms fused."""
    ring, prices = replace(PRESETS["n16"], max_level=levels), Prices.shipped(16)
    shape = Shape("columns", "double", ring.slots, tokens)
    built = Built(model, specs, shape, build(model, specs, shape))
    plain = place_circuit(built.circuit, ring, prices)
    chosen, fused = with_fused_norms(built, plain)
    return plain, fused, [name for name in built.circuit.fusible if chosen.specs.norm(name).fused]


@pytest.mark.parametrize(("levels", "fused_norms"), [(16, ["layer0.norm1", "layer1.norm1"]), (13, [])])
def test_norms_are_fused_where_two_blocks_then_fit(levels: int, fused_norms: list[str]) -> None:
    model = tiny.checkpoint(hidden=16, heads=2, ff=32, layers=2, pooling="mean", classes=3)
    hidden, mask = tiny.inputs(model, 16, 13)
    specs = tiny.specs(model, tiny.run_reference(model, hidden, mask), mask, 1e-3)
    plain, fused, names = planned(model, specs, 16, levels)
    assert names == fused_norms
    if not names:
        assert fused is plain
        return
    columns = 16 // 2  # bootstraps that refresh all columns once
    assert fused.placement.bootstraps <= plain.placement.bootstraps - columns
    assert fused.placement.seconds < plain.placement.seconds


@pytest.mark.slow
def test_four_layers_of_width_128_refresh_three_times_on_sixteen_levels() -> None:
    model = random_model("bert-tiny", layers=4)
    calibration = survey(model, 128, hidden_states=normal_inputs(model, 128, 2)).calibration
    specs = fit_circuit(calibration, model.config, tokens=128)
    plain, fused, _ = planned(tempered(model, calibration.temperatures), specs, 128, 16)
    assert plain.placement.bootstraps > 5 * 64
    assert fused.placement.bootstraps <= 203
    assert fused.placement.seconds < 0.9 * plain.placement.seconds
