"""Every command shown in a block of README and guides runs, in order, on a small model and a toy ring.

What is shown is kept; tokens, preset, model and calibration are made small. `classify` runs on plain; the
five steps are encrypted; `serve` runs beside the commands after it, on a free port. Commands within a
sentence or a table take minutes, or names of the reader's own: of those the options must exist.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

from tacita.cli.app import app

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

ROOT = Path(__file__).parents[2]
PORT = "7007"  # of the commands that are shown
COMMAND = re.compile(r"^    tacita (.*)$", re.MULTILINE)
INLINE = re.compile(r"`tacita ([^`]*)`")
TEXTS = ["a fine film", "the plot is dull", "never boring", "a film of quiet beauty", "some text", "very bad"]
CALIBRATION = [*TEXTS, "a very bad film , is the plot good", "the film is a very fine film", "dull dull dull"]


def shown(page: Path) -> list[str]:
    return COMMAND.findall(page.read_text(encoding="utf-8"))


PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))) if shown(page)
]
ALL = [
    *ROOT.glob("*.md"),
    *(page for name in ("docs", "evaluation", "python") for page in (ROOT / name).rglob("*.md")),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(make_random_checkpoint(), tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    (tmp_path / "calibration.txt").write_text("\n".join(CALIBRATION))
    port = free_port()
    with contextlib.ExitStack() as servers:
        for command in shown(page):
            words = [word.replace(PORT, port) for word in small(shlex.split(command, comments=True), model)]
            if words[0] == "serve":
                servers.enter_context(serving(words))
                continue
            status, _, err = run(*words)
            assert status == 0, f"tacita {command}\n{err}"


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_sentences_and_tables_exist(page: Path) -> None:
    for command in INLINE.findall(page.read_text(encoding="utf-8")):
        words = shlex.split(command)
        given = {word for word in words if word.startswith("--")}
        assert given <= options(*words), f"{page.name}: tacita {command}"


@contextlib.contextmanager
def serving(words: list[str]) -> Iterator[None]:
    """A server in a process of its own, from when it listens on."""
    command = [sys.executable, "-u", "-m", "tacita", *words]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    with server.stdout:
        said = []
        try:
            for line in server.stdout:
                said.append(line)
                if "listening" in line:
                    break
            assert "listening" in "".join(said[-1:]), "".join(said)
            yield
        finally:
            server.kill()
            server.wait()


def free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


def small(words: list[str], model: Path) -> list[str]:
    """The command with its size options replaced."""
    if words[:2] == ["plan", "show"] or "--connect" in words:
        return words
    values = {
        "--tokens": "16",
        "--preset": "insecure_toy_n10",
        "--model": str(model),
        "--texts": "calibration.txt",
    }
    if words[0] == "classify":
        values["--backend"] = "plain"
    known = options(words[0])
    flags = [flag for flag in ["--allow-insecure"] if flag in known]
    added = [word for name, value in values.items() if name in known for word in (name, value)]
    return [*without(words, values), *added, *flags]


def without(words: list[str], names: dict[str, str]) -> Iterator[str]:
    """The words but for these options and their values."""
    rest = iter(words)
    for word in rest:
        if word in names:
            next(rest)
        else:
            yield word


def options(*words: str) -> set[str]:
    """All options of the command, or the command of a group, that the words begin with."""
    found = typer.main.get_command(app)
    for word in words:
        found = getattr(found, "commands", {}).get(word, found)
    return {name for option in found.params for name in (*option.opts, *option.secondary_opts)}
