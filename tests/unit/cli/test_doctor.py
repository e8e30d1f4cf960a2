"""`tacita doctor` and `tacita --version`: what this machine has, and what a default run lacks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from test_cli import run

from tacita import api, compiled
from tacita.cli import doctor
from tacita.cli.ask.schemas import schema_of
from tacita.cli.doctor import EXTRAS, KERNELS
from tacita.errors import TacitaError
from tacita.version import __version__


@pytest.fixture(scope="module")
def plan() -> Any:
    return api.plan(scheme="thor", quick=True)


@pytest.fixture(autouse=True)
def planned_once(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.api, "plan", lambda *_, **__: plan)
    monkeypatch.setattr(doctor, "available_memory", lambda: 64_000_000_000)


def test_a_machine_with_room_runs_the_defaults(tmp_path: Path, plan: Any) -> None:
    status, out, err = run("doctor", "--json", str(tmp_path / "doctor.json"))
    assert (status, err) == (0, "")
    report = json.loads((tmp_path / "doctor.json").read_text())
    assert report["fits"] and report["missing"] == []
    jsonschema.validate(report, schema_of("doctor"))
    lines = ["release", "processor", "kernels", "memory", "disk", *(f"extra {name}" for name in EXTRAS)]
    assert list(report["checks"]) == [*lines, "prices", "OpenCL"]
    assert all(name in out for name in report["checks"])
    need = float(report["checks"]["disk"]["value"].split()[0])
    assert need == pytest.approx(plan.prediction.bytes["evaluation_keys"] / 1e9, abs=0.5)


def test_what_is_missing_is_said_and_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "available_memory", lambda: 1_000_000_000)
    status, out, err = run("doctor")
    assert status == 1 and re.search(r"no memory +\d+\.\d GB needed, 1\.0 GB available", out)
    assert err.startswith("missing: memory: ") and err.count("\n") == 1


def test_without_an_engine_nothing_is_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise TacitaError("the native engine is not built", hint="run `make setup`")

    monkeypatch.setattr(compiled, "_loaded", broken)
    status, out, err = run("doctor")
    assert status == 1 and "no kernels" in out
    assert "missing: kernels: the native engine is not built (run `make setup`)" in err
    assert run("--version")[:2] == (0, f"tacita {__version__} (no engine)\n")


def test_an_extra_that_is_not_there_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    status, out, _ = run("doctor")
    assert status == 0 and re.search(r"ok extra ray +pip install .*\[ray\]", out)


def test_the_version_names_commit_and_kernels() -> None:
    status, out, _ = run("--version")
    kernels = "|".join(map(re.escape, KERNELS.values()))
    pattern = rf"tacita {re.escape(__version__)} \((commit [0-9a-f]{{12}}, )?({kernels}) kernels\)\n"
    assert status == 0 and re.fullmatch(pattern, out), out
