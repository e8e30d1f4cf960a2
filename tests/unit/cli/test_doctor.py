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


CARD = ("A card\x1b[31m", "Its maker", "A platform 1.2", 24_000_000_000, 6_000_000_000, False, True)
COMPARED = [("forward", "U64", 10, 4096, 0), ("inverse", "U64", 10, 4096, 0)]
NONE = "no OpenCL library on this machine; hint: install a driver"


def with_card(monkeypatch: pytest.MonkeyPatch, rows: list[Any], compared: list[Any]) -> None:
    monkeypatch.setattr(compiled.native, "opencl_devices", lambda: (rows, "" if rows else NONE))
    monkeypatch.setattr(compiled.native, "opencl_verify", lambda number: compared)


def test_devices_are_listed_without_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_card(monkeypatch, [CARD], COMPARED)
    status, out, _ = run("device", "list", "--json", str(tmp_path / "list.json"))
    assert status == 0 and out.startswith("opencl:0, A card") and "\x1b" not in out
    assert "24.0 GB, 6.0 GB a buffer, no doubles: computes with integers" in out and out.count("\n") == 1
    jsonschema.validate(json.loads((tmp_path / "list.json").read_text()), schema_of("device list"))
    assert "opencl:0 A card" in run("doctor")[1]


def test_without_opencl_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_card(monkeypatch, [], [])
    status, out, _ = run("device", "list", "--json", str(tmp_path / "list.json"))
    assert (status, out) == (0, f"{NONE}; the processor computes\n")
    jsonschema.validate(json.loads((tmp_path / "list.json").read_text()), schema_of("device list"))
    status, _, err = run("device", "verify")
    assert status == 2 and "no OpenCL library on this machine (install a driver)" in err


def test_a_card_is_verified_and_its_report_has_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_card(monkeypatch, [CARD], COMPARED)
    status, out, _ = run("device", "verify", "--device", "opencl", "--json", str(tmp_path / "card.json"))
    assert status == 0 and "every residue is the processor's" in out
    report = json.loads((tmp_path / "card.json").read_text())
    jsonschema.validate(report, schema_of("device verify"))
    assert (report["device"], report["residues"], report["differ"]) == ("opencl:0", 8192, 0)
    assert report["release"] == __version__ and [c["kernel"] for c in report["checks"]] == [
        "forward",
        "inverse",
    ]


def test_one_residue_that_differs_ends_with_status_two(monkeypatch: pytest.MonkeyPatch) -> None:
    with_card(monkeypatch, [CARD], [COMPARED[0], ("inverse", "U64", 10, 4096, 1)])
    status, out, _ = run("device", "verify")
    assert status == 2 and "do not use this device: inverse" in out


@pytest.mark.parametrize("device", ["opencl:1", "cuda:0", "opencl:-1", "opencl:" + "9" * 40])
def test_a_device_that_is_not_there_is_an_error(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_card(monkeypatch, [CARD], COMPARED)
    status, _, err = run("device", "verify", "--device", device)
    assert status == 2 and "there is none of this name (one of opencl:0)" in err and len(err) < 200


def test_an_error_of_the_driver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with_card(monkeypatch, [CARD], COMPARED)

    def fails(number: int) -> Any:
        raise compiled.native.TacitaError("OpenCL: clFinish failed with -5; hint: fewer slots")

    monkeypatch.setattr(compiled.native, "opencl_verify", fails)
    status, _, err = run("device", "verify")
    assert (status, err) == (2, "error: opencl:0: OpenCL: clFinish failed with -5 (fewer slots)\n")
