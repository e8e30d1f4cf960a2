"""The machine's own prices: kept for this machine alone, refused when damaged, used and named by plans."""

from __future__ import annotations

import dataclasses
import json
import stat
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from plans import model, real_plan
from test_cli import run

from bench.runs.stages import by_worst, compared
from tacita.errors import FileError, PlanError
from tacita.evaluate.keyring import RESULTS, fixed_bytes
from tacita.planning.circuit import circuit_of
from tacita.planning.place.circuit import place_circuit
from tacita.plans.presets import PRESETS
from tacita.plans.prices.cost import Prices
from tacita.resources import Processor, processor
from tacita.schemes import prices as own_prices
from tacita.schemes.ciphertexts import Ciphertexts, stage_estimates
from tacita.schemes.prices import (
    describe_prices,
    keep,
    kernels,
    measured_prices,
    path_of,
    prices_here,
    scaled,
)
from tacita.two_party.program.cost import NTT_MS

DAY = date(2026, 11, 22)


def table(log_n: int = 16) -> dict[str, Any]:
    """As `measure_prices` gives it: the shipped numbers, on this machine's threads."""
    shipped = Prices.shipped(16)
    assert shipped is not None
    data = dataclasses.asdict(shipped) | {"threads": own_prices.threads(), "log_n": log_n}
    found: dict[str, Any] = json.loads(json.dumps(data))  # limbs as strings
    return found | {"touch_seconds_per_gb": 0.5, "spill_seconds_per_gb": 2.0}


def test_what_was_measured_is_found_again_by_this_machine_alone(tmp_path: Path) -> None:
    folder = tmp_path / "prices"
    path = keep(table(), folder, DAY)
    found = measured_prices(16, folder)
    assert found is not None and found.origin == "measured on this machine 2026-11-22"
    assert describe_prices(found) == "prices: measured on this machine 2026-11-22"
    assert found.seconds("rotate", 9) == Prices.from_json(table()).seconds("rotate", 9)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in folder.iterdir()] == [path.name]
    assert measured_prices(15, folder) is None
    assert path_of(16, folder, Processor("another")) != path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), "version 2"),
        (lambda d: d["table"].update(yardstick_ms=9.0), "checksum"),
        (lambda d: d.update(measured="yesterday"), "isoformat"),
        (lambda d: d.pop("table"), "table"),
        (lambda d: redone(d, lambda t: t.update(threads=99)), "99 threads"),
        (lambda d: redone(d, lambda t: t["ms"].pop("outer")), "without a price of outer"),
        (lambda d: redone(d, lambda t: t["ms"]["mul"].update({"4": -1.0})), "out of range"),
        (lambda d: redone(d, lambda t: t["ms"].update(mul={})), "out of range"),
        (lambda d: redone(d, lambda t: t["bootstrap_ms"].pop("real")), "bootstraps"),
        (lambda d: redone(d, lambda t: t.update(ms=7)), "price table"),
    ],
)
def test_damaged_prices_are_refused_and_say_so(
    tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    path = keep(table(), tmp_path, DAY)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(FileError, match=message) as caught:
        measured_prices(16, tmp_path)
    assert "tacita prices" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["bootstrap_ms"].pop("real"), "prices of bootstraps"),
        (lambda t: t["ms"].update(mul={}), "out of range"),
        (lambda t: t["ms"]["mul"].update({"4": float("nan")}), "out of range"),
        (lambda t: t.update(keygen_seconds_per_gb=-1.0), "out of range"),
        (lambda t: t.update(threads="2"), "wrong"),
    ],
)
def test_a_table_at_hand_is_checked_as_a_measured_one(
    tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    data = table()
    change(data)
    (tmp_path / "prices.json").write_text(json.dumps(data))
    with pytest.raises(PlanError, match=message):
        Prices.load(tmp_path / "prices.json")


def redone(data: dict[str, Any], change: Callable[[Any], None]) -> None:
    """A changed table with the checksum of what it then says."""
    change(data["table"])
    data["sha256"] = own_prices._digest(data["table"])


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"[" * 100_000, b'"' + b"x" * (1 << 20) + b'"'])
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    path_of(16, tmp_path).write_bytes(content)
    with pytest.raises(FileError, match="not this machine's prices"):
        measured_prices(16, tmp_path)


def test_prices_that_cannot_be_kept_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "prices").write_text("a file in the place of the folder")
    with pytest.raises(FileError, match="cannot be made"):
        keep(table(), tmp_path / "prices", DAY)


def test_only_rings_that_bootstrap_have_prices_of_their_own() -> None:
    assert prices_here("n16_leveled") is None and prices_here("leveled") is None


def test_until_then_shipped_prices_are_scaled_and_plans_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Prices.shipped(16)
    assert shipped is not None
    there = own_prices.Kernels(**shipped.kernels)
    quick = own_prices.Kernels(0.5 * there.switch, 2.0 * there.copy, 2.0 * NTT_MS)
    monkeypatch.setattr(own_prices, "kernels", lambda: quick)
    monkeypatch.setattr(own_prices, "threads", lambda: shipped.threads)
    here = scaled(shipped)
    assert here is not None and (here.scale, here.streams) == (0.83, 2.0)
    assert here.pace == 2.0 and "shipped, scaled by 0.83 by this machine's kernels" in describe_prices(here)
    plan = real_plan()
    circuit, parameters = circuit_of(plan, model()), PRESETS["insecure_toy_n10"]
    ours, theirs = (place_circuit(circuit, parameters, prices) for prices in (here, shipped))
    assert ours.placement == theirs.placement
    for step in ours.placement.steps:
        slow = 2.0 * step.streaming + 0.83 * (step.seconds - step.streaming + step.bootstrap_seconds)
        assert step.seconds_on(here) == pytest.approx(slow) and 0.0 < step.streaming < step.seconds


def test_other_threads_than_the_table_has_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of 12, 28 and 36 transforms: half of each on two threads; 3 of 48, 4 of 56, 3 of 48 on 16. Copies
    move five times as much on 16 threads."""
    shipped = Prices.shipped(16)
    assert shipped is not None and shipped.threads == 2
    monkeypatch.setattr(own_prices, "kernels", lambda: own_prices.Kernels(**shipped.kernels))
    monkeypatch.setattr(own_prices, "threads", lambda: 16)
    here = scaled(shipped)
    left = 2 * (12 * 3 / 48 + 28 * 4 / 56 + 36 * 3 / 48) / 76
    assert here is not None and here.streams == round(39 / 200, 2)
    assert here.scale == round(own_prices.HOT * left + (1 - own_prices.HOT) * 39 / 200, 2) < 1 / 6
    assert "counted for 16 threads" in describe_prices(here)
    monkeypatch.setattr(own_prices, "threads", lambda: 1)
    alone = scaled(shipped)
    assert alone is not None and 1.8 < alone.scale < 2.0 and alone.streams == round(39 / 28, 2)


def test_kernels_are_timed_in_seconds_of_this_processor() -> None:
    """A switch in the caches takes 30 limbs' transforms and more; all of it within what an estimate may."""
    found = kernels()
    assert 30.0 * found.transform < found.switch < 3000.0 * found.transform
    assert found.copy > 0.0 and kernels() is found


def test_new_memory_and_the_disk_are_priced_stage_by_stage() -> None:
    plan = real_plan()
    most = max(plan.prediction.stage_bytes)
    priced = {**plan.prediction.seconds, "touch": 3.0, "spill": 5.0}
    dear = dataclasses.replace(plan, prediction=dataclasses.replace(plan.prediction, seconds=priced))
    stages = list(stage_estimates(dear))
    assert sum(stage.touch_seconds for stage in stages) == pytest.approx(3.0)
    assert all(stage.touch_seconds >= 0.0 and stage.spill_seconds == 0.0 for stage in stages)
    fixed = fixed_bytes(plan)
    half = most / 2 / (1 - 1 / RESULTS)  # room beside results
    tight = list(stage_estimates(dear, memory=(fixed + half) / 1e9))
    assert sum(stage.touch_seconds for stage in tight) == pytest.approx(1.5, rel=1e-3)
    assert max(stage.spill_seconds for stage in tight) == pytest.approx(2.5, rel=1e-3)
    scheme = Ciphertexts("thor")
    whole, bare = scheme.estimate(dear, 3), scheme.estimate(plan, 3)
    assert whole["wall_seconds"] == pytest.approx(bare["wall_seconds"] + 3.0)


def test_the_worst_stages_come_first_and_short_ones_not_at_all() -> None:
    def row(name: str, seconds: float | None, predicted: float) -> dict[str, Any]:
        return {"name": name, "seconds": seconds, "predicted_seconds": predicted}

    rows = [row("good", 10.0, 10.0), row("slow", 6.0, 3.0), row("quick", 2.0, 8.0), row("short", 0.3, 0.1)]
    assert [each["name"] for each in by_worst(rows)] == ["quick", "slow", "good"]
    assert by_worst([*rows, row("absent", None, 3.0)])[0]["name"] == "absent"
    found = compared(rows)
    assert found["ratio"] == pytest.approx(18.3 / 21.1)
    assert found["worst"][1] == {"name": "slow", "seconds": 6.0, "predicted_seconds": 3.0, "ratio": 2.0}


def test_a_processor_is_known_by_more_than_its_name(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    for number in (2, 17):
        info.write_text(f"processor\t: 0\ncpu family\t: 26\nmodel\t\t: {number}\nmodel name\t: AMD EPYC\n")
        assert processor(info).name == "AMD EPYC"
        (tmp_path / f"{processor(info).key}.seen").touch()
    assert len(list(tmp_path.glob("*.seen"))) == 2
    assert processor(tmp_path / "none").name


def test_commands_measure_keep_use_and_name_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    toy = ["--preset", "insecure_toy_n11"]
    keep(table(11), today=DAY)
    status, out, _ = run("estimate", *toy, "--tokens", "16")
    assert status == 0 and "prices: measured on this machine 2026-11-22" in out
    assert "new memory, first request" in out
    (path,) = (tmp_path / "tacita" / "prices").iterdir()
    path.write_text("{}")
    status, _, err = run("estimate", *toy, "--tokens", "16")
    assert status == 2 and "not this machine's prices" in " ".join(err.split())
    assert run("estimate", *toy, "--tokens", "16", plan__prices="shipped")[0] == 0
