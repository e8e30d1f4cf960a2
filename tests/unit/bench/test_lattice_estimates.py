"""The estimator's outputs in `bench/kernels/lattice` belong to the inputs beside them, and these to the
engine's presets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tacita.plans.presets import PRESETS

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "bench" / "kernels" / "lattice"
INPUTS: dict[str, Any] = json.loads((FOLDER / "inputs.json").read_text())
COST = re.compile(r"(\w+) +2\^ *(inf|[0-9.]+) ")


def costs(row: str) -> dict[str, float]:
    """log2 of the operations of every attack in a row's output."""
    lines = (FOLDER / "outputs" / f"{row}.txt").read_text().splitlines()
    return {found[1]: float(found[2]) for line in lines if (found := COST.match(line))}


@pytest.mark.parametrize("name", INPUTS["rows"])
def test_every_output_is_of_its_input_and_of_the_pinned_version(name: str) -> None:
    row, text = INPUTS["rows"][name], (FOLDER / "outputs" / f"{name}.txt").read_text()
    assert f"# {name}: {row['what']}\n" in text
    assert f"# estimator {INPUTS['estimator']}," in text
    given = f"# n = 2^{row['log2_n']}, log2 q = {row['log2_q']}, weight {row['weight']}, "
    given += f"sigma {INPUTS['sigma']}\n"
    assert given in text
    assert list(costs(name)) == INPUTS["attacks"][row["attacks"]]


@pytest.mark.parametrize("name", INPUTS["rows"])
def test_no_attack_costs_less_than_128_bits(name: str) -> None:
    assert min(costs(name).values()) >= 128.0


@pytest.mark.parametrize("name", ["n16_table", "n13_table"])
def test_the_estimator_agrees_with_the_table(name: str) -> None:
    assert 128.0 <= min(costs(name).values()) <= 131.0


def test_the_inputs_are_the_engines() -> None:
    rows = INPUTS["rows"]
    secure = {name: info for name, info in PRESETS.items() if not name.startswith("insecure_")}
    assert len(secure) == 6
    for name, info in secure.items():
        assert (rows[name]["log2_n"], rows[name]["log2_q"]) == (info.log_n, info.log_qp)
        assert rows[name]["weight"] is None
    sparse = (ROOT / "crates/ckks/src/sparse.rs").read_text()
    assert f"MAX_LOG_QP: f64 = {rows['to_sparse_limit']['log2_q']};" in sparse
    weight = (ROOT / "crates/rlwe/src/secret.rs").read_text()
    assert f"SPARSE_WEIGHT: usize = {rows['to_sparse']['weight']};" in weight


def test_the_small_ring_is_that_of_coefficient_products() -> None:
    """Degree and modulus of what is published under its secret, the second dense one of a client."""
    row = INPUTS["rows"]["small_ring"]
    ratio = (ROOT / "crates/coefficients/src/arrangement.rs").read_text()
    assert f"const LOG_RATIO: u32 = {PRESETS['n16'].log_n - row['log2_n']};" in ratio
    shown = (ROOT / "crates/coefficients/tests/toy.rs").read_text()
    assert f"(pair.small().log_qp() - {row['log2_q']}).abs() < 0.1" in shown
    assert row["weight"] is None
