"""Stages with variants: the placement takes the cheapest combination, and one that refreshes is simulated at
its own levels."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tacita.errors import PlanError
from tacita.planning.place.placement import place
from tacita.planning.place.simulate import StageSimulator
from tacita.plans.prices.cost import Prices
from tacita.plans.prices.formulas import formula_prices
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Stage

TOP, REQUEST = 13, {"x": 1, "y": 1}


def simulator() -> StageSimulator:
    return StageSimulator(lambda: SimBackend(64, TOP))


def wide(name: str, width: int) -> Stage:
    """x -> so many ciphertexts, one level down."""

    def run(be, live):
        return {"x": tuple(be.mul_const(live["x"][0], 0.5) for _ in range(width)), "y": live["y"]}

    return Stage(name, run)


def function(name: str, degree: int) -> Stage:
    """A polynomial of each of x, or a refresh through 7 harmonics."""

    def poly(be, live):
        return {"x": tuple(be.poly(ct, np.ones(degree + 1)) for ct in live["x"]), "y": live["y"]}

    def through(be, live):
        kinds = ["real"] * len(live["x"])
        return {"x": tuple(be.bootstrap_through(live["x"], kinds, np.ones(8))), "y": live["y"]}

    return Stage(name, poly, variants=(Stage(name, through, refreshes=True),))


def joined(name: str) -> Stage:
    """x and y -> one ciphertext."""

    def run(be, live):
        total = live["x"][0]
        for ct in live["x"][1:]:
            total = be.add(total, ct)
        out = be.mul(total, live["y"][0])
        return {"x": (out,), "y": live["y"]}

    return Stage(name, run)


def circuit(width: int, degree: int) -> list[Stage]:
    first = [wide("wide", width), function("f", degree), joined("join")]
    return [*first, wide("again", 1), function("g", degree), joined("end")]


def priced(bootstrap_ms: float) -> Prices:
    both = {"alone": bootstrap_ms, "each": bootstrap_ms}
    return replace(formula_prices(10), bootstrap_ms={"complex": both, "real": both})


@pytest.mark.parametrize(("width", "degree"), [(1, 31), (4, 31), (4, 255), (1, 300)])
@pytest.mark.parametrize("bootstrap_ms", [1.0, 80.0, 4000.0])
def test_the_cheapest_combination_is_taken(width, degree, bootstrap_ms):
    stages, prices = circuit(width, degree), priced(bootstrap_ms)
    found = place(stages, REQUEST, simulator(), prices)
    fixed = []
    for choice in product(*[(stage, *stage.variants) for stage in stages]):
        alone = [replace(stage, variants=()) for stage in choice]
        fixed.append((place(alone, REQUEST, simulator(), prices).seconds, [s.refreshes for s in choice]))
    assert found.seconds == pytest.approx(min(seconds for seconds, _ in fixed))
    taken = [step.refreshes for step in found.steps]
    assert any(taken == choice and seconds == pytest.approx(found.seconds) for seconds, choice in fixed)


def test_both_variants_are_taken_somewhere():
    wide_and_cheap = place(circuit(1, 300), REQUEST, simulator(), priced(1.0))
    narrow_and_dear = place(circuit(4, 3), REQUEST, simulator(), priced(4000.0))
    assert [step.placed.name for step in wide_and_cheap.steps if step.refreshes] == ["f", "g"]
    assert not any(step.refreshes for step in narrow_and_dear.steps)


def test_a_refresh_leaves_its_result_where_it_is_whatever_came_in():
    stage, sim = function("f", 3).variants[0], simulator()
    for level in (0, 5, TOP):
        found = sim.outcome(stage, REQUEST, {"x": level, "y": 4})
        assert found.levels == {"x": TOP - 2, "y": 4}
        assert found.counts["bootstrap_through_real", level, ""] == 1


def test_a_stage_that_no_variant_can_run_is_named():
    with pytest.raises(PlanError, match="stage f needs more than"):
        place([replace(function("f", 1 << 14), variants=())], REQUEST, simulator(), priced(1.0))


def test_without_bootstrapping_a_refresh_is_refused():
    stages = [function("f", 3).variants[0], joined("end")]
    with pytest.raises(PlanError, match="stage f bootstraps, which these parameters cannot"):
        place(stages, REQUEST, simulator(), priced(float("inf")))
