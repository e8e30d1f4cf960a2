"""The commitment to the weights: who opens it, and that the salt stays with the server."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import stat
from pathlib import Path
from typing import Any

import pytest
from plans import model, real_plan

from tacita.client.session import Client
from tacita.errors import FileError, PlanError, ShapeError
from tacita.evaluate import Server
from tacita.planning.circuit import circuit_of
from tacita.plans import commitment
from tacita.plans.plan import Plan, parse
from tacita.plans.presets import PRESETS
from tacita.plans.prices.formulas import evaluation_key_bytes, file_bytes, key_file_bytes
from tacita.plans.public_folder import public_of
from tacita.schemes.base import save
from tacita.slots.conformance import COEFFICIENT_TOKENS


def test_it_is_the_hash_of_salt_and_hash() -> None:
    wanted = hashlib.sha256(b"\x01" * 32 + b"\x02" * 32).hexdigest()
    assert commitment.commit("01" * 32, "02" * 32) == wanted
    assert commitment.draw() != commitment.draw()


def test_a_plan_states_it_and_neither_the_salt_nor_the_hash() -> None:
    plan = real_plan()
    assert plan.model.commitment == commitment.commit(plan.salt, model().sha256)
    assert plan.salt not in plan.to_text() + repr(plan)
    assert model().sha256 not in plan.to_text()
    assert parse(plan.to_text(), "here").salt == ""


def test_plan_and_salt_lie_beside_each_other(tmp_path: Path) -> None:
    plan = real_plan()
    save(plan, tmp_path / "plan.json")
    assert stat.S_IMODE((tmp_path / commitment.SALT_FILE).stat().st_mode) == 0o600
    assert Plan.load(tmp_path / "plan.json").salt == plan.salt
    (tmp_path / commitment.SALT_FILE).unlink()
    assert Plan.load(tmp_path / "plan.json") == plan
    assert Plan.load(tmp_path / "plan.json").salt == ""


@pytest.mark.parametrize("text", ["", "00" * 31, "zz" * 32, "00" * 100])
def test_another_file_in_the_salts_place_is_refused(text: str, tmp_path: Path) -> None:
    save(real_plan(), tmp_path / "plan.json")
    (tmp_path / commitment.SALT_FILE).write_text(text)
    with pytest.raises(FileError, match=r"weights\.salt: not the salt"):
        Plan.load(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("salt", "message"), [("", "without the salt"), ("00" * 32, "committed to other weights")]
)
def test_a_server_that_cannot_open_it_does_not_evaluate(salt: str, message: str, tmp_path: Path) -> None:
    plan = dataclasses.replace(real_plan(), salt=salt)
    with pytest.raises(PlanError, match=message):
        Server(plan, model(), tmp_path, allow_insecure=True)
    with pytest.raises(PlanError, match=message):
        circuit_of(plan, model())


def test_other_weights_do_not_open_it(tmp_path: Path) -> None:
    other = dataclasses.replace(model(), hashed=lambda: "11" * 32)
    with pytest.raises(PlanError, match="committed to other weights"):
        Server(real_plan(), other, tmp_path, allow_insecure=True)


# The length of a key file, counted before it is made, against files that clients wrote.

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
    """The sizes then come from the price table, which is of the large ring, and are an upper bound."""
    plan = real_plan()
    from tacita.plans.prices.formulas import prices_of

    asked = plan.parameters, plan.rotations, prices_of(plan.parameters)
    exact, memory = evaluation_key_bytes(*asked)

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    estimate, unchanged = evaluation_key_bytes(*asked)
    assert exact < estimate < 3 * exact and unchanged == memory
