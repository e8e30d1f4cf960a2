"""The two-party client in WebAssembly beside a real server: its threads in node, then the whole page in
Chromium. `make web` builds what is tested."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacita import api
from tacita.checkpoint.reference import reference
from tacita.texts.embed import embed

world = pytest.importorskip("web_world", reason="the service's packages are not installed")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "python" / "tacita" / "data" / "web"
TESTS = ROOT / "web" / "test"
ENGINE = PAGE / "tacita.wasm"
NODE = shutil.which("node")
CHROMIUM = os.environ.get("TACITA_CHROMIUM") or shutil.which("chromium")
TEXTS = ("a film of quiet beauty", "a waste of time, truly bad")
TOO_LONG = "x " * 50
SECONDS = 480.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.native,
    pytest.mark.skipif(NODE is None or not ENGINE.exists(), reason="node, or the page: make web"),
]


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    with world.serving() as model:
        yield model


def run(script: Path, *arguments: object) -> list[dict[str, Any]]:
    """What a script says, line by line."""
    command = [str(NODE), str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def build_parts(folder: Path) -> None:
    subprocess.run([str(NODE), str(ROOT / "web" / "build.mjs"), "--parts", str(folder)], check=True)


def test_the_parts_that_need_no_browser(tmp_path: Path) -> None:
    build_parts(tmp_path)
    command = [str(NODE), "--test", str(TESTS / "parts.test.mjs")]
    named = {**os.environ, "TACITA_PARTS": str(tmp_path)}
    done = subprocess.run(command, env=named, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout


def test_its_threads_answer_like_the_model(model: Any, tmp_path: Path) -> None:
    build_parts(tmp_path)
    (tmp_path / "program.json").write_bytes(model.program)
    port = model.listener.port
    told = run(TESTS / "ask.mjs", tmp_path, ENGINE, tmp_path / "program.json", port, *TEXTS, TOO_LONG)
    answers, checkpoint = [each for each in told if each["kind"] == "answer"], api.load()
    for text, each in zip(TEXTS, answers, strict=True):
        expected = reference(checkpoint, *embed(checkpoint, text, model.plan.tokens)).logits
        assert each["answer"]["logits"] == pytest.approx(expected, abs=0.05)
    assert "takes 16" in told[-1]["message"] and told[-1]["again"] is True
    assert {each["name"] for each in told if each["kind"] == "node"} >= {"set-up", "layer0.attention"}


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.skipif(not (ROOT / "web" / "node_modules").exists(), reason="playwright-core: make web")
def test_the_page_answers_in_a_browser(model: Any) -> None:
    with world.service(model, PAGE) as url:
        [found] = run(TESTS / "page.mjs", CHROMIUM, url, *TEXTS, TOO_LONG)
    assert (found["complaints"], found["unnamed"]) == ([], [])
    first, second, third = found["answers"]
    assert (first["label"], second["label"]) == ("positive", "negative")
    assert [row[0] for row in first["scores"]] == ["positive", "negative"]
    assert [row[0] for row in first["cost"]] == ["Time", "Sent", "Received", "Messages waited for"]
    assert "sst2-tiny" in first["saw"] and "text has 52 tokens" in third["status"]
    assert all(text not in json.dumps(each["saw"]) for text, each in zip(TEXTS, (first, second), strict=True))
