"""Every Python and shell block of docs/guides/openai-clients.md runs against a gateway. LangChain and
LlamaIndex run in the environment of `make gateway-clients`, and are left out where it is not there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_world import MODELS, World, world

from tacita.cli.options import variables
from tacita.data import DEFAULT_DECODER

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "openai-clients.md"
CLIENTS = ROOT / "build" / "clients" / "bin" / "python"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LIBRARIES = ("langchain_openai", "llama_index")
ADDRESS = "http://127.0.0.1:8117"
NAMES = {"all-MiniLM-L6-v2": "encoder", "ms-marco": "ranker", DEFAULT_DECODER.name: "decoder"}
MESSAGE = "Emma could not"
SHOWN = {"She was": "a fine film", MESSAGE: "a dull plot"}  # words that the small decoder knows


@pytest.fixture(scope="module")
def served() -> Iterator[World]:
    with world({name: MODELS[kind] for name, kind in NAMES.items()}) as made:
        yield made


def blocks(kind: str, url: str) -> list[str]:
    text = GUIDE.read_text(encoding="utf-8").replace(ADDRESS, url)
    for word, known in SHOWN.items():
        text = text.replace(word, known)
    return [block for found, block in BLOCK.findall(text) if found == kind]


def test_blocks_of_openai_run(served: World, capsys: pytest.CaptureFixture[str]) -> None:
    own = [block for block in blocks("python", served.url) if not any(name in block for name in LIBRARIES)]
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n".join(own), str(GUIDE), "exec", dont_inherit=True), names)
    names["client"].close()
    said = capsys.readouterr().out
    assert len(own) == 4 and said.endswith("16\nmodel_not_found\n")


@pytest.mark.skipif(not CLIENTS.exists(), reason="their environment is not there: make gateway-clients")
@pytest.mark.parametrize("library", LIBRARIES)
def test_blocks_of_other_libraries_run(library: str, served: World) -> None:
    """Their program has nothing of ours: neither the package nor our environment."""
    (block,) = [block for block in blocks("python", served.url) if library in block]
    before = len(served.log)
    ran = subprocess.run([CLIENTS, "-I", "-c", block], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    width, text = ran.stdout.split("\n", 1)
    assert width == "16" and text.strip()
    assert len(served.log) - before == 2 and all(" 200" in line for line in served.log[before:])


def test_blocks_of_the_shell_run(served: World) -> None:
    (block,) = blocks("sh", served.url)
    ran = subprocess.run(["bash", "-ec", block], capture_output=True, text=True, check=True)
    models, embeddings, ranking = (json.loads(line) for line in ran.stdout.replace("}{", "}\n{").split("\n"))
    assert {each["id"] for each in models["data"]} == set(NAMES)
    assert len(embeddings["data"][0]["embedding"]) == 16 and len(ranking["results"]) == 2


@contextmanager
def command(*options: str, log: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields the process of `tacita gateway` with both sides on this machine, and its URL."""
    words = [sys.executable, "-u", "-m", "tacita", "gateway", *options]
    plain = variables({"gateway": {"listen": "127.0.0.1:0"}, "run": {"threads": 1}})
    with log.open("w") as errors:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | plain
        )
    assert process.stdout is not None
    try:
        url = next((line for line in process.stdout if line.startswith("listening on ")), "")
        yield process, url.removeprefix("listening on ").partition(",")[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_command_takes_its_key_alone_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    openai = pytest.importorskip("openai")
    key, log = tmp_path / "key", tmp_path / "log"
    key.write_text("our-own-key\n")
    (texts := tmp_path / "texts").write_text(MESSAGE)
    options = ["--tokens", "32", "--texts", str(texts), "--api-key-file", str(key)]
    with command(*options, log=log) as (process, url):
        asked = {"model": DEFAULT_DECODER.name, "prompt": MESSAGE, "max_tokens": 1}
        with openai.OpenAI(base_url=f"{url}/v1", api_key="our-own-key") as client:
            assert client.completions.create(**asked).choices[0].text.strip()
        with (
            openai.OpenAI(base_url=f"{url}/v1", api_key="another") as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.completions.create(**asked)
        process.send_signal(signal.SIGINT)
        assert process.wait(900) == 0
    said = log.read_text()
    assert "POST /v1/completions 200" in said and "POST (no path) 401" in said
    assert MESSAGE not in said and "our-own-key" not in said and "Traceback" not in said
