"""A batch of texts through the five steps and through `classify`, on a toy ring."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run as tacita

from tacita import api
from tacita.checkpoint import load
from tacita.errors import InputError
from tacita.plans.plan import Plan

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

TEXTS = ["a fine film", "the plot is dull", "never boring", "a very bad film , is the plot good"]
CALIBRATION = [*TEXTS, "good", "bad plot", "the film is a very fine film", "dull dull dull"]
TOY = ["--preset", "insecure_toy_n8", "--tokens", "16"]  # 128 slots: 8 texts of 16 tokens
INSECURE = "--allow-insecure"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(make_random_checkpoint(), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    return api.plan(load(model), tokens=16, preset="insecure_toy_n8", scheme="arion", texts=CALIBRATION)


def texts_file(folder: Path, name: str, texts: list[str]) -> str:
    path = folder / name
    path.write_text("\n".join(texts))
    return str(path)


def references(work: Path, model: Path, texts: list[str]) -> np.ndarray:
    plan, checkpoint = Plan.load(work / "plan.json"), load(model)
    return np.array([api.reference_logits(plan, checkpoint, text) for text in texts])


@pytest.mark.parametrize("scheme", ["arion", "moai"])
def test_five_steps_answer_every_text_of_a_batch(scheme: str, model: Path, tmp_path: Path) -> None:
    calibration, file = (
        texts_file(tmp_path, "c.txt", CALIBRATION),
        texts_file(tmp_path, "t.txt", [*TEXTS, "very " * 30]),
    )
    served, public = ["--work", str(tmp_path), "--model", str(model)], str(tmp_path / "public")
    common = ["--work", str(tmp_path), "--public", public]
    planning = [*TOY, "--scheme", scheme, "--texts", calibration]
    assert tacita("publish", *served, "--output", public, *planning)[0] == 0
    assert tacita("keygen", *common, INSECURE)[0] == 0
    status, _, err = tacita("encrypt", *common, INSECURE, "--file", file)
    assert status == 1  # the fifth line
    assert "t.txt:5: the text has" in err
    status, _, err = tacita("evaluate", *served, INSECURE)
    assert status == 0, err
    report = tmp_path / "decrypt.json"
    status, out, _ = tacita("decrypt", *common, INSECURE, "--count", "4", "--json", str(report))
    assert status == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["1", "2", "3", "4"]
    logits = np.array([answer["logits"] for answer in json.loads(report.read_text())["answers"]])
    assert np.max(np.abs(logits - references(tmp_path, model, TEXTS))) < 0.02


def test_places_left_over_answer_as_the_first_text(plan: Plan, model: Path, tmp_path: Path) -> None:
    """The server cannot tell a full batch from one text; neither can it be asked to."""
    checkpoint = load(model)
    client = api.Client(api.public_of(plan, checkpoint), tmp_path, allow_insecure=True)
    client.keygen()
    sizes = [client.encrypt_batch(texts).stat().st_size for texts in (TEXTS * 2, TEXTS[:2])]
    assert sizes[0] == sizes[1]
    api.Server(plan, checkpoint, tmp_path, allow_insecure=True).evaluate()
    answers = client.decrypt_batch()
    assert len(answers) == plan.batch == 8
    wanted = api.reference_logits(plan, checkpoint, TEXTS[0])
    for answer in (answers[0], *answers[2:]):
        assert np.max(np.abs(np.array(answer.logits) - wanted)) < 0.02
    assert client.decrypt() == answers[0]


def test_a_request_over_the_batch_is_refused(plan: Plan, model: Path, tmp_path: Path) -> None:
    checkpoint = load(model)
    client = api.Client(api.public_of(plan, checkpoint), tmp_path, allow_insecure=True)
    for texts in ([], TEXTS * 3):
        with pytest.raises(InputError, match=f"{len(texts)} texts, a request of this plan holds 1 to 8"):
            client.encrypt_batch(texts)
    assert list(tmp_path.iterdir()) == []


def test_classify_encrypts_several_batches(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    calibration, file = texts_file(tmp_path, "c.txt", CALIBRATION), texts_file(tmp_path, "t.txt", TEXTS * 3)
    report = tmp_path / "report.json"
    options = ["--model", str(model), *TOY, "--scheme", "arion", "--texts", calibration]
    status, out, err = tacita("classify", "--file", file, *options, "--json", str(report))
    assert status == 0, err
    found = json.loads(report.read_text())
    assert (found["inputs"], found["requests"], found["texts_per_request"]) == (12, 2, 8)
    assert found["max_abs_error"] < 0.02
    assert found["agreement"] == 1.0
    assert found["bytes"]["request"] > 0
    assert len([line for line in out.splitlines() if line.split(":")[0].isdigit()]) == 12
