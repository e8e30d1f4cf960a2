"""`python -m bench engine` writes the fields that it promises, and presets are what the engine says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main
from tacita.plans import engine
from tacita.plans.presets import PRESETS
from tacita.plans.prices.cost import Prices
from tacita.schemes.measure import measure_prices

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_the_engines(preset: str) -> None:
    assert engine.describe(preset) == PRESETS[preset]


def test_the_figures_and_the_price_table(tmp_path: Path) -> None:
    report, table = tmp_path / "engine.json", tmp_path / "prices.json"
    options = [
        "--preset",
        "insecure_toy_n11",
        "--allow-insecure",
        "--json",
        str(report),
        "--prices",
        str(table),
    ]
    assert main(["engine", *options]) == 0
    found = json.loads(report.read_text())
    assert {"yardstick_ms", "ntt_ms", "rotate_ms", "mul_relin_ms", "rescale_ms", "threads"} <= set(found)
    assert found["conversion_ms"] > 0 and found["product_ms"] > 0  # beside ntt_ms: the floors of a key switch
    wanted = {"seconds", "bits_average", "bits_worst", "levels_left", "log_qp", "keys_gb", "peak_rss_gb"}
    assert wanted <= set(found["bootstrap"])
    assert found["bootstrap"]["bits_average"] >= 20
    assert found["bootstrap"]["levels_left"] == 16
    assert found["memory"]["copy_gb_per_second"] > 0
    moved = found["memory"]["operations"]
    assert set(moved) == {"rotate", "multiply", "rescale", "bootstrap"}
    assert all(row["bytes"] > 0 and row["share_of_copy"] > 0 for row in moved.values())
    prices = Prices.load(table)
    assert prices.seconds("rotate", 9) > 0
    assert prices.bootstrap_seconds(("complex",)) > 0


def test_the_quick_prices() -> None:
    """Of four bootstraps: one alone of each kind, and one of both together, divided as they are alone."""
    table = measure_prices("insecure_toy_n10", allow_insecure=True)
    found = Prices.from_json(table)
    alone, each = (
        [found.bootstrap_ms[kind][how] for kind in ("complex", "real")] for how in ("alone", "each")
    )
    assert min(each) > 0
    assert each[0] / each[1] == pytest.approx(alone[0] / alone[1])
    assert set(found.ms) == set(table["ms"]) and found.seconds("outer", 9) > 0


def test_insecure_benchmarks_must_be_asked_for() -> None:
    assert main(["engine", "--preset", "insecure_toy_n11"]) == 2
