"""Client and server as separate processes through files, on a toy ring: right answers, and every wrong file
refused."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_cli import run

from tacita import api
from tacita.checkpoint import embed, load
from tacita.errors import FileError, KeyMissingError, TacitaError
from tacita.plans.plan import Plan

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")

PRESET = "insecure_toy_n10"
TEXT = "a film of quiet beauty"
CALIBRATION = "a film of quiet beauty\na waste of time\nit is neither good nor bad , only long\n"
TOY = "--allow-insecure"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stderr: str


def folders(work: Path, step: str) -> list[str]:
    """A client's step knows the public folder."""
    client = ["--public", str(work / "public")] if step in ("keygen", "encrypt", "decrypt") else []
    return ["--work", str(work), *client]


def process(work: Path, step: str, *arguments: str) -> None:
    """One successful step in its own process."""
    command = [sys.executable, "-m", "tacita", step, *folders(work, step), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def tacita(work: Path, step: str, *arguments: str, check: bool = True) -> Done:
    """One step in this process, which is quicker."""
    status, _, told = run(step, *folders(work, step), *arguments)
    assert not check or status == 0, told
    return Done(status, told)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after all five steps."""
    work = tmp_path_factory.mktemp("run")
    texts = work / "texts.txt"
    texts.write_text(CALIBRATION)
    public = ("--output", str(work / "public"))
    process(work, "publish", *public, "--preset", PRESET, "--tokens", "8", "--texts", str(texts))
    process(work, "keygen", TOY)
    process(work, "encrypt", TOY, TEXT)
    process(work, "evaluate", TOY, "--json", str(work / "evaluate.json"))
    process(work, "decrypt", TOY, "--json", str(work / "decrypt.json"))
    return work


@pytest.fixture
def work(finished: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(finished, tmp_path / "work")
    return tmp_path / "work"


def opened(work: Path) -> tuple[Plan, api.Client, api.Server]:
    plan, model = Plan.load(work / "plan.json"), load(api.DEFAULT_MODEL)
    client = api.Client(work / "public", work, allow_insecure=True)
    return plan, client, api.Server(plan, model, work, allow_insecure=True)


def test_the_decrypted_answer_is_the_float_models(finished: Path) -> None:
    plan = Plan.load(finished / "plan.json")
    found = json.loads((finished / "decrypt.json").read_text())
    reference = api.reference_logits(plan, load(api.DEFAULT_MODEL), TEXT)
    assert np.max(np.abs(np.array(found["logits"]) - reference)) < 0.02
    assert found["label"] == "positive"
    assert found["warnings"] == []
    assert all(v == round(v, plan.decimals) for v in found["logits"])


def test_the_step_reports_its_figures(finished: Path) -> None:
    found = json.loads((finished / "evaluate.json").read_text())
    assert found["seconds"]["evaluate"] > 0
    assert found["peak_rss_gb"] > 0
    assert found["bytes"]["response"] == (finished / "response.ct").stat().st_size


def test_the_secret_key_is_private_and_stays_with_the_client(finished: Path, work: Path) -> None:
    assert stat.S_IMODE((finished / "secret.key").stat().st_mode) == 0o600
    (work / "secret.key").unlink()
    (work / "response.ct").unlink()
    tacita(work, "evaluate", TOY)
    assert (work / "response.ct").exists()


def test_a_secret_key_that_others_can_read_is_refused(work: Path) -> None:
    (work / "secret.key").chmod(0o644)
    failed = tacita(work, "decrypt", TOY, check=False)
    assert failed.returncode == 2
    assert "lets others read the secret key" in failed.stderr


def test_insecure_parameters_must_be_asked_for(work: Path) -> None:
    for step in ("keygen", "encrypt", "evaluate", "decrypt"):
        failed = tacita(work, step, *([TEXT] if step == "encrypt" else []), check=False)
        assert failed.returncode == 2
        assert " 2 bits of security, 128 are required" in failed.stderr


def test_hidden_states_give_the_same_answer(work: Path) -> None:
    model = load(api.DEFAULT_MODEL)
    hidden, mask = embed(model, TEXT, 8)
    np.save(work / "states.npy", hidden[mask > 0])
    tacita(work, "encrypt", TOY, "--hidden-states", str(work / "states.npy"))
    tacita(work, "evaluate", TOY)
    _, client, _ = opened(work)
    reference = api.reference_logits(client.plan, model, TEXT)
    assert np.max(np.abs(np.array(client.decrypt().logits) - reference)) < 0.02


def test_an_input_outside_the_intervals_is_noticed_after_decryption(work: Path) -> None:
    """F.7: the client can tell from the decoded result alone."""
    hidden, mask = embed(load(api.DEFAULT_MODEL), TEXT, 8)
    np.save(work / "states.npy", 4.0 * hidden[mask > 0])
    tacita(work, "encrypt", TOY, "--hidden-states", str(work / "states.npy"))
    tacita(work, "evaluate", TOY)
    told = tacita(work, "decrypt", TOY, check=False)
    assert told.returncode == 2
    assert "outside the calibrated intervals" in told.stderr


@pytest.mark.parametrize("name", ["plan.json", "evaluation.keys", "request.ct"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign", "longer", "version"])
def test_the_server_refuses_damaged_files(work: Path, name: str, damage: str) -> None:
    _spoil(work / name, damage)
    failed = tacita(work, "evaluate", TOY, check=False)
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ")
    assert name in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("name", ["public/plan.json", "public/public.json", "secret.key", "response.ct"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign", "longer", "version"])
def test_the_client_refuses_damaged_files(work: Path, name: str, damage: str) -> None:
    _spoil(work / name, damage)
    failed = tacita(work, "decrypt", TOY, check=False)
    assert failed.returncode == 2
    assert Path(name).name in failed.stderr
    assert "Traceback" not in failed.stderr


def test_another_clients_keys_are_told_apart(work: Path) -> None:
    request = (work / "request.ct").read_bytes()
    tacita(work, "keygen", TOY)
    _, client, server = opened(work)
    with pytest.raises(FileError, match=r"response\.ct: made with key .*, this is key"):
        client.decrypt()
    (work / "request.ct").write_bytes(request)
    with pytest.raises(FileError, match=r"request\.ct: made with key .*, this is key"):
        server.evaluate()


def test_another_plan_is_told_apart(work: Path) -> None:
    plan = dataclasses.replace(Plan.load(work / "plan.json"), decimals=2)
    (work / "plan.json").write_text(plan.to_text())
    failed = tacita(work, "evaluate", TOY, check=False)
    assert failed.returncode == 2
    assert "request.ct: made under plan" in failed.stderr


def test_keys_of_another_plan_are_told_apart(work: Path) -> None:
    plan = Plan.load(work / "plan.json")
    fewer = dataclasses.replace(plan, rotations=plan.rotations[:-1])
    (work / "plan.json").write_text(fewer.to_text())
    failed = tacita(work, "evaluate", TOY, check=False)
    assert failed.returncode == 2
    assert "made for another plan" in failed.stderr


def test_keys_of_other_parameters_are_told_apart(work: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    texts = work / "texts.txt"
    public = ("--output", str(other / "public"))
    tacita(other, "publish", *public, "--preset", "insecure_toy_n11", "--tokens", "8", "--texts", str(texts))
    tacita(other, "keygen", TOY)
    shutil.copy(other / "evaluation.keys", work / "evaluation.keys")
    failed = tacita(work, "evaluate", TOY, check=False)
    assert failed.returncode == 2
    assert "parameters" in failed.stderr


def test_a_missing_rotation_key_is_named(work: Path) -> None:
    """A server with keys of a smaller plan says which steps are absent, and leaves the old response alone."""
    plan = Plan.load(work / "plan.json")
    before = (work / "response.ct").read_bytes()
    _keys_without(plan, plan.rotations[len(plan.rotations) // 2][0], work)
    _, client, server = opened(work)
    client.encrypt(TEXT)
    with pytest.raises(
        KeyMissingError, match="1 of the plan's keys are missing, the first is of rotation by"
    ):
        server.evaluate()
    assert (work / "response.ct").read_bytes() == before


def test_an_answer_beside_another_request_is_not_shown(work: Path) -> None:
    _, client, _ = opened(work)
    client.encrypt("a waste of time")
    with pytest.raises(FileError, match="answers another request"):
        client.decrypt()


def test_too_little_memory_is_said_before_the_run(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacita.resources.available_memory", lambda: int(1e6))
    _, _, server = opened(work)
    with pytest.raises(TacitaError, match="evaluation needs"):
        server.evaluate()


@pytest.mark.parametrize("name", ["plan.json", "evaluation.keys", "request.ct", "secret.key", "response.ct"])
def test_another_version_is_called_that(work: Path, name: str) -> None:
    _spoil(work / name, "version")
    step = "decrypt" if name in ("secret.key", "response.ct") else "evaluate"
    assert "version" in tacita(work, step, TOY, check=False).stderr


def test_too_little_disk_is_said_before_the_keys_are_made(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    failed = tacita(work, "keygen", TOY, check=False)
    assert failed.returncode == 2
    assert "key generation needs" in failed.stderr
    assert (work / "secret.key").exists()


def test_an_interrupted_keygen_leaves_the_old_keys(work: Path) -> None:
    before = {name: (work / name).stat().st_mtime_ns for name in ("secret.key", "evaluation.keys")}

    def interrupt(progress: object) -> None:
        raise KeyboardInterrupt

    _, client, _ = opened(work)
    with pytest.raises(KeyboardInterrupt):
        client.keygen(interrupt)
    assert {name: (work / name).stat().st_mtime_ns for name in before} == before
    assert not [entry for entry in work.iterdir() if entry.name.endswith(".part")]


@pytest.mark.parametrize("text", ["", "   ", "word " * 40])
def test_bad_texts_are_refused(work: Path, text: str) -> None:
    failed = tacita(work, "encrypt", TOY, "--", text, check=False)
    assert failed.returncode == 2
    assert "the text" in failed.stderr


def test_hidden_states_of_another_width_are_refused(work: Path) -> None:
    np.save(work / "states.npy", np.zeros((4, 64)))
    failed = tacita(work, "encrypt", TOY, "--hidden-states", str(work / "states.npy"), check=False)
    assert failed.returncode == 2
    assert "the model has width 128" in failed.stderr


def _spoil(path: Path, damage: str) -> None:
    data = path.read_bytes()
    middle = len(data) // 2
    spoiled = {
        "truncated": data[:middle],
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "empty": b"",
        "foreign": os.urandom(4096),
        "longer": data + bytes(64),
        "version": _of_another_version(data, path.suffix),
    }
    path.write_bytes(spoiled[damage])


def _of_another_version(data: bytes, suffix: str) -> bytes:
    """The file as a later release might write it: see plan.py, envelope.py and the wire crate for the
    places."""
    if suffix == ".json":
        return re.sub(
            rb'"version": ?(\d+)', lambda m: m[0].replace(m[1], b"%d" % (int(m[1]) + 1)), data, count=1
        )
    place = 10 if suffix == ".ct" else 7
    return data[:place] + bytes([data[place] + 1]) + data[place + 1 :]


def _keys_without(plan: Plan, step: int, work: Path) -> None:
    from tacita import compiled
    from tacita.plans import engine

    rotations = [r for r in plan.rotations if r[0] != step]
    params = engine.parameters(plan.parameters, allow_insecure=True)
    paths = str(work / "secret.key"), str(work / "evaluation.keys")
    compiled.native.keygen(params, rotations, *paths, lambda done, total: None)
