"""A model by its name, fetched from a Hub on this machine: what is taken, what is refused, what is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from hub_world import COMMIT, Hub, hub
from huggingface_hub import constants
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

import tacita
from tacita.checkpoint.hub import choose_files, fetch, parse_name
from tacita.cli.app import app
from tacita.errors import CheckpointError
from tacita.models.fields import MAX_WEIGHT_BYTES

NAME = "org/tiny-bert"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub with one model, which also holds what must never be fetched; an empty cache."""
    folder = write_folder(make_random_checkpoint(labels=(), pooling="mean"), tmp_path / "repository")
    for name in ("modeling_tiny.py", "pytorch_model.bin", "training_args.bin", "model.onnx", "README.md"):
        (folder / name).write_text("not for us")
    monkeypatch.chdir(tmp_path)
    fetch.cache_clear()
    with hub() as here:
        here.models[NAME] = folder
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, here.endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", here.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield here


def test_a_name_gives_the_model_of_a_folder(world: Hub) -> None:
    model = tacita.load(NAME)
    assert model.sha256 == tacita.load(world.models[NAME]).sha256
    assert model.name == f"{NAME}@{COMMIT[:12]}"
    fetched = {path.rpartition(f"{COMMIT}/")[2] for path in world.asked if "/resolve/" in path}
    assert "model.safetensors" in fetched and "config.json" in fetched
    assert not [file for file in fetched if file.endswith((".py", ".bin", ".onnx", ".md"))]


def test_a_plan_says_which_commit_it_is_of(world: Hub) -> None:
    plan = tacita.plan(tacita.load(f"{NAME}@main"), scheme="bumblebee", tokens=16, texts=["a fine film"])
    assert plan.name == f"{NAME}@{COMMIT[:12]}"


def test_a_name_is_looked_up_once_in_a_process(world: Hub) -> None:
    tacita.load(NAME)
    world.commit, asked = "f" * 40, len(world.asked)
    assert tacita.load(NAME).name.endswith(COMMIT[:12]) and len(world.asked) == asked


def test_what_is_cached_needs_no_network(world: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    tacita.load(NAME)
    for name, value in (("HF_HUB_OFFLINE", True), ("ENDPOINT", "http://127.0.0.1:9")):
        fetch.cache_clear()
        monkeypatch.setattr(constants, name, value)
        asked = len(world.asked)
        assert tacita.load(NAME).name.endswith(COMMIT[:12]) and len(world.asked) == asked


def refusal(name: str, revision: str | None = None) -> str:
    with pytest.raises(CheckpointError) as caught:
        tacita.load(name, revision=revision)
    lines = f"{caught.value} | {caught.value.hint}"
    assert "\n" not in lines and caught.value.hint
    return lines


def test_each_refusal_says_what_to_do(world: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    world.refusals |= {"org/gated": (403, "GatedRepo"), "org/down": (503, "")}
    assert "no such folder here, and no such model on the Hub | check the name at" in refusal("org/absent")
    assert "accept terms" in (gated := refusal("org/gated")) and "HF_TOKEN" in gated
    assert "no such revision | a branch, a tag" in refusal(NAME, "v9")
    assert "the Hub answered 503 | try again later" in refusal("org/down")
    assert "which is no org/name" in refusal("tiny-bert", "main")
    assert "did you mean sst2-tiny?" in refusal("sst2-tny")
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    assert "(tacita models fetch minilm; or pass" in f"({refusal('minilm').partition(' | ')[2]}"
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "the Hub cannot be reached (" in (lines := refusal("org/unreachable")) and "HF_ENDPOINT" in lines
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set | unset it" in refusal("org/offline")


def test_a_hub_is_not_believed(world: Hub) -> None:
    world.sizes["model.safetensors"] = MAX_WEIGHT_BYTES
    assert f"at most 100 files of known sizes, {MAX_WEIGHT_BYTES} bytes" in refusal(NAME)
    world.sizes["model.safetensors"] = None
    assert "of known sizes" in refusal(NAME)
    del world.sizes["model.safetensors"]
    world.commit = "../../elsewhere"
    assert "the Hub names no commit" in refusal(NAME)


def test_safetensors_come_first_and_a_pickle_is_taken_where_it_is_all_there_is() -> None:
    some = ["config.json", "1_Pooling/config.json", "../config.json", "a.py", "optimizer.bin"]
    kept = some[:2]
    shards = ["model.safetensors.index.json", "model-00001-of-00002.safetensors"]
    assert choose_files(NAME, dict.fromkeys([*some, *shards, "pytorch_model.bin"], 1)) == [*kept, *shards]
    assert choose_files(NAME, dict.fromkeys([*some, "pytorch_model.bin"], 1)) == [*kept, "pytorch_model.bin"]
    with pytest.raises(CheckpointError) as caught:
        choose_files(NAME, {"tiny.Q8_0.gguf": 1})
    assert caught.value.hint == f"hf download {NAME} tiny.Q8_0.gguf --local-dir ., and --model tiny.Q8_0.gguf"
    many = [f"model-{number:05}-of-00101.safetensors" for number in range(101)]
    with pytest.raises(CheckpointError, match="103 files"):
        choose_files(NAME, dict.fromkeys([*kept, *many], 1))


@pytest.mark.parametrize(
    "name", ["generation_config.json", "added_tokens.json", "sentence_xlm-roberta_config.json"]
)
def test_files_that_change_what_a_model_means_are_fetched(name: str) -> None:
    least = ["config.json", name, "model.safetensors"]
    assert choose_files(NAME, dict.fromkeys([*least, f"other/{name}"], 1)) == least


@pytest.mark.parametrize("text", ["name", "./org/name", "/org/name", "../x", "a/b/c", "org/name@", "org/-x"])
def test_paths_are_no_names(text: str) -> None:
    assert parse_name(text) is None


def test_commands_take_a_name(world: Hub, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a fine film\nthe plot is dull\n")
    small = ["--model", f"{NAME}@main", "--tokens", "16", "--texts", "texts.txt"]
    small += ["--preset", "insecure_toy_n10"]
    status, _, err = run("embed", "a fine film", "--backend", "plain", *small)
    assert status == 0 and f"model: {NAME}@{COMMIT[:12]} of the Hugging Face Hub" in err, err
    status, _, err = run("embed", "a fine film", "--model", "org/absent")
    assert status == 2 and "no such model on the Hub" in err and "Traceback" not in err


ASKED = {  # commands that take a model, with what else they need
    "demo": [],
    "classify": ["a"],
    "embed": ["a"],
    "search": ["a", "--documents", "none.index"],
    "tag": ["a"],
    "answer": ["a", "--context", "b"],
    "fill": ["a"],
    "rerank": ["a", "b"],
    "generate": ["a"],
    "gateway": [],
    "estimate": [],
    "plan": [],
    "publish": [],
    "accuracy": ["--data", "data.tsv"],
    "serve": ["--scheme", "bumblebee", "--port", "0", "--new-certificate", "tls"],
    "choose": [],
    "recheck": ["none", "--record", "a"],  # without, it reads its plan before a model
    "evaluate": [],  # reads its plan before a model
}


def test_every_command_with_a_model_is_asked_by_name() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    taking = {name for name, each in commands.items() for option in each.params if "--model" in option.opts}
    assert taking - {"encrypt", "decrypt", "keygen"} <= set(ASKED)


@pytest.mark.parametrize("command", sorted(set(ASKED) - {"evaluate"}))
def test_a_name_that_is_unknown_is_one_line_in_every_command(
    command: str, world: Hub, tmp_path: Path
) -> None:
    (tmp_path / "data.tsv").write_text("sentence\tlabel\na fine film\t1\n")
    status, _, err = run(command, *ASKED[command], "--model", "org/absent")
    assert status == 2, err
    assert err.splitlines()[-1].startswith("error: load: org/absent: no such folder here, and no such model")
    assert "/api/models/org/absent" in world.asked


def test_a_measurement_asks_the_hub_once_for_all_its_processes(world: Hub, tmp_path: Path) -> None:
    labelled = write_folder(make_random_checkpoint(), tmp_path / "labelled")
    world.models["org/labelled"] = labelled
    (tmp_path / "data.tsv").write_text("sentence\tlabel\na fine film\t1\nthe plot is dull\t0\n")
    report = tmp_path / "report.json"
    small = ["--scheme", "bumblebee", "--tokens", "16", "--texts", "texts.txt", "--json", str(report)]
    (tmp_path / "texts.txt").write_text("a fine film\nthe plot is dull\n")
    status, _, err = run(
        "accuracy", "--data", "data.tsv", "--model", "org/labelled", "--backend", "plain", *small
    )
    assert status in (0, 1), err
    assert json.loads(report.read_text())["model"] == f"org/labelled@{COMMIT[:12]}"


def test_the_variables_of_the_hub_hold(world: Hub, tmp_path: Path) -> None:
    """In a process of its own, which reads them as it starts."""
    code = f"import tacita; print(tacita.load({NAME!r}).name)"
    given = {"HF_ENDPOINT": world.endpoint, "HF_HOME": str(tmp_path / "home")}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | given, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{NAME}@{COMMIT[:12]}\n" and "Traceback" not in ran.stderr
