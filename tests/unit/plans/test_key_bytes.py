"""The length of a key file, counted before it is made, against files that clients wrote."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from plans import model, real_plan

from tacita.client.session import Client
from tacita.errors import ShapeError
from tacita.plans.presets import PRESETS
from tacita.plans.prices.predict import evaluation_key_bytes, file_bytes, key_file_bytes
from tacita.plans.public_folder import public_of
from tacita.slots.conformance import COEFFICIENT_TOKENS

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

ONES = ((1, 13), (2, 5), (3, 0), (100, 7))  # among the rotations of bootstrapping, and not
PLANS = [("thor", "insecure_toy_n9"), ("thor", "insecure_toy_n10"), ("arion", "insecure_toy_n9"),
         ("moai", "insecure_toy_n10"), ("leaf", "insecure_toy_n11")]  # fmt: skip


def written(folder: Path, preset: str, rotations: Any, tokens: int | None) -> int:
    """Bytes of a client's file."""
    params = native.Parameters.preset(preset, allow_insecure=True)
    secret, keys = folder / "secret.key", folder / "evaluation.keys"
    native.keygen(params, list(rotations), str(secret), str(keys), lambda done, total: None, tokens)
    return keys.stat().st_size


@pytest.mark.parametrize(
    ("preset", "rotations", "tokens"),
    [
        ("insecure_toy_n8", (), None),
        ("insecure_toy_n8", ONES, None),
        ("insecure_toy_n8", ONES, COEFFICIENT_TOKENS),
        ("insecure_toy_n9", [(k, k % 14) for k in range(1, 256)], None),
        ("insecure_toy_n10", [*ONES, (101, 2), (101, 9)], None),
        ("insecure_toy_leveled_n9", [(1, 17), (7, 0)], None),
        ("n13_leveled", [(1, 3), (2, 2), (64, 1), (4095, 0)], None),
    ],
)
def test_the_count_is_the_files_length(
    preset: str, rotations: Any, tokens: int | None, tmp_path: Path
) -> None:
    counted = key_file_bytes(PRESETS[preset], rotations, tokens)
    assert counted == written(tmp_path, preset, rotations, tokens)


@pytest.mark.parametrize(("scheme", "preset"), PLANS)
def test_a_plan_states_its_keys_true_length(scheme: str, preset: str, tmp_path: Path) -> None:
    plan = real_plan(scheme, preset)
    client = Client(public_of(plan, model()), tmp_path, allow_insecure=True)
    client.keygen()
    size = client.work.evaluation_keys.stat().st_size
    assert plan.prediction.bytes["evaluation_keys"] == file_bytes(plan)["evaluation_keys"] == size


def test_a_level_above_the_top_has_no_keys() -> None:
    with pytest.raises(ShapeError, match="level"):
        key_file_bytes(PRESETS["n13_leveled"], [(1, 4)])


def test_planning_goes_on_without_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes then come from the price table and are an upper bound."""
    plan = real_plan()
    from tacita.plans.prices.formulas import prices_of

    asked = plan.parameters, plan.rotations, prices_of(plan.parameters)
    exact, memory = evaluation_key_bytes(*asked)

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    estimate, unchanged = evaluation_key_bytes(*asked)
    assert exact < estimate < 2 * exact and unchanged == memory
