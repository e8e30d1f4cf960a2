"""The server within a memory limit and through kill -9, on toy rings: the response is the same, byte for
byte."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spilling
from encrypted import make_engine, toy
from test_cli import run

from tacita import api
from tacita.checkpoint import load
from tacita.errors import ResourceError
from tacita.evaluate.keyring import ciphertext_budget, fixed_bytes, server_bytes
from tacita.evaluate.session import FOLDER
from tacita.evaluate.spill import Codec, SpillingBackend, SpillStore
from tacita.plans.plan import Plan
from tacita.slots.conformance import CHECKS, COEFFICIENT_TOKENS, Harness

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET, TOKENS = "insecure_toy_n10", "8"
TEXT = "a film of quiet beauty"
CALIBRATION = "a film of quiet beauty\na waste of time\nit is neither good nor bad , only long\n"
TOY = "--allow-insecure"
KILLED_AT = 9  # the process ends itself, without warning, before it begins this stage

DYING = """
import os, signal, sys
from pathlib import Path
from tacita import api
from tacita.plans.plan import Plan

def progress(now):
    if now.index == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

work = Path(sys.argv[1])
plan, model = Plan.load(work / "plan.json"), api.load(api.DEFAULT_MODEL)
api.Server(plan, model, work, allow_insecure=True, threads=1, save_every=0).evaluate(progress)
"""


def command(*arguments: str) -> str:
    """What a successful command wrote to stderr."""
    status, _, err = run(*arguments)
    assert status == 0, err
    return err


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after an uninterrupted evaluation."""
    work = tmp_path_factory.mktemp("run")
    texts = work / "texts.txt"
    texts.write_text(CALIBRATION)
    command("plan", "--work", str(work), "--preset", PRESET, "--tokens", TOKENS, "--texts", str(texts))
    client = api.Client(
        api.public_of(Plan.load(work / "plan.json"), load(api.DEFAULT_MODEL)), work, allow_insecure=True
    )
    client.keygen()
    client.encrypt(TEXT)
    assert server(work).evaluate().exists()
    assert not (work / FOLDER).exists()
    return work


@pytest.fixture(scope="module")
def dead(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder whose evaluation was killed."""
    work = tmp_path_factory.mktemp("dead") / "work"
    shutil.copytree(finished, work)
    (work / "response.ct").unlink()
    command = [sys.executable, "-c", DYING, str(work), str(KILLED_AT)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    return work


@pytest.fixture
def killed(dead: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(dead, tmp_path / "work")
    return tmp_path / "work"


def server(work: Path, **options: Any) -> api.Server:
    plan, model = Plan.load(work / "plan.json"), load(api.DEFAULT_MODEL)
    return api.Server(plan, model, work, allow_insecure=True, **options)


def response(work: Path) -> bytes:
    return (work / "response.ct").read_bytes()


def test_a_killed_evaluation_goes_on_and_gives_the_identical_response(finished: Path, killed: Path) -> None:
    point = json.loads((killed / FOLDER / "resume.json").read_text())
    assert point["index"] == KILLED_AT
    report = killed / "evaluate.json"
    told = command("evaluate", "--work", str(killed), TOY, "--json", str(report))
    assert told.startswith(f"evaluate: goes on after stage {point['stage']}, {KILLED_AT} of ")
    found = json.loads(report.read_text())
    plan = Plan.load(killed / "plan.json")
    assert found["resumed_stages"] == KILLED_AT
    assert list(found["stage_seconds"]) == [stage.name for stage in plan.stages[KILLED_AT:]]
    assert found["spill_gb"] > 0
    assert response(killed) == response(finished)
    assert not (killed / FOLDER).exists()


def test_no_resume_starts_from_the_beginning(finished: Path, killed: Path) -> None:
    report = killed / "evaluate.json"
    told = command("evaluate", "--work", str(killed), TOY, "--no-resume", "--json", str(report))
    assert told == ""
    assert json.loads(report.read_text())["resumed_stages"] == 0
    assert response(killed) == response(finished)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("*.spill", r"starts from the beginning: .*\.spill: checksum"),
        ("resume.json", "starts from the beginning: .*json"),
    ],
)
def test_a_damaged_point_is_told_and_not_used(
    finished: Path, killed: Path, pattern: str, message: str
) -> None:
    path = next((killed / FOLDER).glob(pattern))
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    told: list[str] = []
    server(killed).evaluate(notice=told.append)
    (line,) = told
    assert re.match(message, line)
    assert response(killed) == response(finished)


def test_a_point_of_another_request_is_not_used(killed: Path) -> None:
    model = load(api.DEFAULT_MODEL)
    client = api.Client(api.public_of(Plan.load(killed / "plan.json"), model), killed, allow_insecure=True)
    client.encrypt("a waste of time")
    told: list[str] = []
    server(killed).evaluate(notice=told.append)
    assert told[0].endswith("resume.json: of another request")
    assert client.decrypt().label == "negative"


def test_within_little_memory_the_response_is_the_same(finished: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(finished, work)
    (work / "response.ct").unlink()
    plan = Plan.load(work / "plan.json")
    fixed = fixed_bytes(plan)
    tight = server(work, memory=fixed / 1e9 + 1e-4)
    assert tight.forecast() == (fixed + 100_000, max(plan.prediction.stage_bytes))
    assert server(work).forecast() == (server_bytes(plan), 0)
    tight.evaluate()
    assert tight.usage.written > 0
    assert tight.usage.read > 0
    assert response(work) == response(finished)
    assert server(work).evaluate() and not (work / FOLDER).exists()


def test_a_limit_below_the_keys_is_told_before_anything_runs(finished: Path) -> None:
    plan = Plan.load(finished / "plan.json")
    with pytest.raises(ResourceError, match=r"within 0\.01 GB: keys and process alone need"):
        ciphertext_budget(plan, 0.01)
    with pytest.raises(ResourceError, match="keys and process alone need"):
        server(finished, memory=0.01).evaluate()


def test_a_full_disk_ends_the_run_and_leaves_the_point(
    finished: Path, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (killed / FOLDER / "resume.json").read_bytes()
    held = sum(path.stat().st_size for path in (killed / FOLDER).glob("*.spill"))
    plan = Plan.load(killed / "plan.json")
    spilling.leave_disk(monkeypatch, held + 1000)
    fixed = fixed_bytes(plan)
    with pytest.raises(ResourceError, match=r"spilling a ciphertext needs .* are free"):
        server(killed, memory=fixed / 1e9 + 1e-6).evaluate()
    assert (killed / FOLDER / "resume.json").read_bytes() == before
    monkeypatch.undo()
    server(killed).evaluate()
    assert response(killed) == response(finished)


def test_a_folder_resume_of_the_user_survives(finished: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(finished, work)
    (work / "resume").mkdir()
    (work / "resume" / "cv.txt").write_text("mine")
    server(work).evaluate()
    assert (work / "resume" / "cv.txt").read_text() == "mine"
    assert response(work) == response(finished)


def test_two_evaluations_in_one_folder_are_kept_apart(killed: Path) -> None:
    store = SpillStore(killed / FOLDER)
    with pytest.raises(ResourceError, match="in use by another evaluate"):
        server(killed).evaluate()
    store.close(keep=True)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The engine with room for no ciphertext at all."""
    folder = tmp_path_factory.mktemp("keys")
    params = toy("insecure_toy_n8")
    rotations = [(k, params.max_level) for k in range(1, params.slots)]
    engine = make_engine(params, rotations, folder, tokens=COEFFICIENT_TOKENS)
    store = SpillStore(folder / "spill")
    codec = Codec(
        lambda ct: int(ct.nbytes),
        lambda ct: bytes(ct.to_bytes()),
        lambda b: native.Ciphertext.from_bytes(params, b),
    )
    be = SpillingBackend(engine.be, store, 0, codec)

    def encrypt(values: np.ndarray, level: int | None) -> Any:
        return be.adopt(engine.encrypt(values, level))

    def decrypt(ct: Any) -> Any:
        with be.pool.pinned([ct]):
            return engine.secret.decrypt(ct.entry.value)

    yield Harness(be, encrypt, decrypt, tolerance=2e-5)
    store.close(keep=False)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Any, harness: Harness) -> None:
    check(harness)
