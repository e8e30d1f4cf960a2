"""`tacita doctor` and `tacita --version`: what this machine has, and what a default run lacks."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from test_cli import run

from tacita import api, compiled, resources
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


class Bootstrap:
    """Differs in its second flavour from the processor; needs 3 and 2 GB."""

    def __init__(self, params: Any) -> None:
        assert params.name == "n16"

    @staticmethod
    def memory(params: Any) -> tuple[int, int]:
        return 3_000_000_000, 2_000_000_000

    def compare(self, number: int, flavour: int) -> Any:
        assert number == 0 and signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        return ("bootstrap", "FU"[flavour] + "64", 16, 4096, flavour)


def test_a_bootstrap_of_a_preset_is_compared_after_its_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_card(monkeypatch, [CARD], COMPARED)
    monkeypatch.setattr(compiled.native, "OpenclBootstrap", Bootstrap)
    before = signal.getsignal(signal.SIGINT)
    status, out, err = run("device", "verify", "--preset", "n16", "--json", str(tmp_path / "card.json"))
    assert status == 2 and "do not use this device: bootstrap" in out
    assert err.startswith("a bootstrap of n16 takes 3.0 GB here and 2.0 GB of the device\n")
    assert signal.getsignal(signal.SIGINT) == before
    report = json.loads((tmp_path / "card.json").read_text())
    jsonschema.validate(report, schema_of("device verify"))
    assert (report["preset"], report["differ"], len(report["checks"])) == ("n16", 1, 4)
    assert len(report["seconds"]) == 3 and min(report["seconds"].values()) >= 0


@pytest.mark.parametrize(
    ("free", "card", "words"),
    [
        (4_900_000_000, (*CARD[:6], False), "needs 5.0 GB of memory"),  # a device of the same memory
        (2_900_000_000, (*CARD[:6], True), "needs 3.0 GB of memory"),
        (3_100_000_000, (*CARD[:3], 1_900_000_000, *CARD[4:6], True), "does not fit on the device"),
    ],
)
def test_a_bootstrap_without_room_is_refused_before_it_begins(
    free: int, card: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled.native, "opencl_devices", lambda: ([card], ""))
    monkeypatch.setattr(compiled.native, "OpenclBootstrap", Bootstrap)
    monkeypatch.setattr(resources, "available_memory", lambda: free)
    status, _, err = run("device", "verify", "--preset", "n16")
    assert status == 2 and words in err


@pytest.mark.parametrize(
    ("preset", "words"),
    [("n15_leveled", "no bootstrapping"), ("insecure_toy_n10", "bits of security"), ("x", "unknown")],
)
def test_a_preset_that_no_plan_refreshes_by_is_refused(
    preset: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_card(monkeypatch, [CARD], COMPARED)
    status, _, err = run("device", "verify", "--preset", preset)
    assert status == 2 and words in err


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
