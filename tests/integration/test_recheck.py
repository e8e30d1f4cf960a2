"""A published run is what it says, and one that was changed in any way is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.errors import FileError, InputError
from tacita.plans import envelope
from tacita.plans.files import digest_of
from tacita.plans.plan import Plan
from tacita.recheck import FILES, KIT, recheck, record

TEXT, OTHER = "a film of quiet beauty", "two hours of my life"
TOY: dict[str, Any] = {"allow_insecure": True, "threads": 1}


@pytest.fixture(scope="module")
def model() -> Checkpoint:
    return api.load()


@pytest.fixture(scope="module")
def plan(model: Checkpoint) -> Plan:
    made = api.plan(model, scheme="thor", tokens=8, preset="insecure_toy_n10", texts=[TEXT, OTHER])
    assert isinstance(made, Plan)
    return made


@pytest.fixture(scope="module")
def kits(model: Checkpoint, plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two runs, of two texts."""
    folders = {text: tmp_path_factory.mktemp("run") for text in (TEXT, OTHER)}
    for text, folder in folders.items():
        record(folder, plan, model, text, report=lambda _: None, **TOY)
    return folders


def checks_of(folder: Path, model: Checkpoint) -> list[str]:
    return [check.name for check in recheck(folder, model, report=lambda _: None, **TOY)]


def changed(kit: Path, folder: Path, **fields: Any) -> Path:
    """A copy of a run that says something else, with sums that fit its files."""
    if kit != folder:
        shutil.copytree(kit, folder, dirs_exist_ok=True)
    said = json.loads((folder / KIT).read_text(encoding="utf-8")) | fields
    said["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
    (folder / KIT).write_text(json.dumps(said), encoding="utf-8")
    return folder


def test_a_run_is_what_it_says(kits: dict[str, Path], model: Checkpoint) -> None:
    """The folder holds what is needed and no evaluation key."""
    assert {path.name for path in kits[TEXT].iterdir()} == {KIT, *FILES}
    assert checks_of(kits[TEXT], model) == ["files", "plan", "request", "response", "evaluation", "float"]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused(
    kits: dict[str, Path], model: Checkpoint, tmp_path: Path, name: str
) -> None:
    shutil.copytree(kits[TEXT], tmp_path, dirs_exist_ok=True)
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / name).chmod(0o600)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FileError, match=f"{name} is not the file that was recorded"):
        checks_of(tmp_path, model)


def test_another_text_is_refused(kits: dict[str, Path], model: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="encrypts another text"):
        checks_of(changed(kits[TEXT], tmp_path, text=OTHER), model)


@pytest.mark.parametrize("said", [{"logits": [1.0, -1.0]}, {"label": "negative"}])
def test_another_answer_is_refused(
    kits: dict[str, Path], model: Checkpoint, tmp_path: Path, said: dict[str, Any]
) -> None:
    with pytest.raises(FileError, match="decrypts to another answer"):
        checks_of(changed(kits[TEXT], tmp_path, **said), model)


def test_a_response_that_was_not_computed_is_refused(
    kits: dict[str, Path], model: Checkpoint, plan: Plan, tmp_path: Path
) -> None:
    """The response to another text under the same key, which names this request: all but the evaluation
    fits."""
    folder = changed(kits[TEXT], tmp_path / "run")
    work = shutil.copytree(folder, tmp_path / "work")
    client = api.Client(api.public_of(plan, model), work, allow_insecure=True)
    client.keygen(keep_secret=True)
    client.encrypt(OTHER)
    api.Server(plan, model, work, **TOY).evaluate()
    answer = client.decrypt(OTHER)
    key = envelope.key_of(work / "response.ct", "response")
    cts = [ct for _, _, ct in envelope.stream(work / "response.ct", "response", plan, key)]
    (name,), named = (tensor.name for tensor in plan.response), digest_of(folder / "request.ct")
    lengths = {name: [len(ct) for ct in cts]}
    envelope.write(folder / "response.ct", "response", plan.hash, key, lengths, {name: cts}, named)
    forged = changed(folder, folder, label=answer.label, logits=list(answer.logits))
    with pytest.raises(FileError, match="evaluated again, the answer is another"):
        checks_of(forged, model)


def test_a_folder_that_holds_files_is_not_overwritten(
    kits: dict[str, Path], model: Checkpoint, plan: Plan
) -> None:
    with pytest.raises(InputError, match="not empty"):
        record(kits[TEXT], plan, model, TEXT, report=lambda _: None, **TOY)
