"""The commitment to the weights: who opens it, and that the salt stays with the server."""

from __future__ import annotations

import dataclasses
import hashlib
import stat
from pathlib import Path

import pytest
from plans import model, real_plan

from tacita.errors import FileError, PlanError
from tacita.evaluate import Server
from tacita.planning.circuit import circuit_of
from tacita.plans import commitment
from tacita.plans.plan import Plan, parse
from tacita.schemes.base import save


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
    other = dataclasses.replace(model(), sha256="11" * 32)
    with pytest.raises(PlanError, match="committed to other weights"):
        Server(real_plan(), other, tmp_path, allow_insecure=True)
