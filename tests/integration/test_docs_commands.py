"""Every command shown in a block of README and guides runs, in order, on a small model and a toy ring.

What is shown is kept; tokens, preset, model and calibration are made small. `classify` runs on plain, with
`--ray` encrypted as the five steps are; `serve` runs beside the commands after it, on a free port. Commands
within a sentence or a table take minutes, or names of the reader's own: of those the options must exist.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

from bench.app import app as benches
from tacita import compiled
from tacita.checkpoint.texts import FILE
from tacita.cli.app import app
from tacita.cli.options import variables
from tacita.data import DEFAULT_DECODER

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

ROOT = Path(__file__).parents[2]
PORTS = ("7007", "7008", "8443", "8117")  # of the commands that are shown
PORT = re.compile("|".join(PORTS))
COMMAND = re.compile(r"^    tacita (.*)$", re.MULTILINE)
CONTINUED = re.compile(r" \\\n +")
SETTINGS = re.compile(r"^```toml\n(# tacita\.toml\n.*?)```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(tacita|python\s+-m\s+bench)\s+([^`]*)`")
PROGRAMS = {"tacita": app, "python -m bench": benches}
TEXTS = [
    "a fine film",
    "the plot is dull",
    "never boring",
    "a film of quiet beauty",
    "a dull plot",
    "very bad",
]
CALIBRATION = [*TEXTS, "a very bad film , is the plot good", "the film is a very fine film", "dull dull dull"]


# Of the texts that the shipped decoder is calibrated on, behind the beginnings that are shown.
WRITTEN = [
    "Emma could not",
    "Emma was",
    *(DEFAULT_DECODER / FILE).read_text(encoding="utf-8").splitlines()[1:16],
]

KINDS: dict[str, dict[str, Any]] = {
    "embed": {"labels": (), "pooling": "mean"},
    "tag": {"labels": ("O", "B-ART", "I-ART"), "task": "tokens"},
    "answer": {"labels": ("start", "end"), "task": "span"},
    "fill": {"labels": (), "task": "words"},
    "rerank": {"labels": ("relevance",)},
}
TOY = {"plan": {"preset": "insecure_toy_n10"}, "run": {"allow_insecure": True}}
TOY |= {"gateway": {"listen": "127.0.0.1:0"}}
ASKING = {"classify", "search", *KINDS}


def shown(page: Path) -> list[str]:
    return COMMAND.findall(CONTINUED.sub(" ", page.read_text(encoding="utf-8")))


PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))) if shown(page)
]
ALL = [
    *ROOT.glob("*.md"),
    *(page for name in ("bench", "docs", "python") for page in (ROOT / name).rglob("*.md")),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model that a command can be given."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def made(command: str) -> Path:
        return write_folder(make_random_checkpoint(**KINDS.get(command, {})), folder / command / "model")

    return lambda command: made("embed" if command == "search" else command if command in KINDS else "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(
    page: Path, models: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    for name, value in variables(TOY).items():  # as options where a command has them
        monkeypatch.setenv(name, value)
    for name in ("texts.txt", "docs.txt"):
        (tmp_path / name).write_text("\n".join(TEXTS))
    pairs = [f"{text}\t{other}" for text, other in itertools.pairwise(TEXTS)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["text\ttext2", *pairs]))
    labelled = [f"{text}\t{number % 2}" for number, text in enumerate(TEXTS)]
    (tmp_path / "labelled.tsv").write_text("\n".join(["sentence\tlabel", *labelled]))
    (tmp_path / "calibration.txt").write_text("\n".join(CALIBRATION))
    (tmp_path / "written.txt").write_text("\n".join(WRITTEN))
    settings = SETTINGS.findall(page.read_text(encoding="utf-8"))
    asks = any("connect = " in text for text in settings)
    ports = dict.fromkeys(PORTS, "0")  # a free one, until the server says which
    with contextlib.ExitStack() as servers:
        for command, asking in zip(commands := shown(page), [*commands[1:], ""], strict=True):
            for text in settings:
                (tmp_path / "tacita.toml").write_text(replaced(text, ports))
            given = shlex.split(command, comments=True)
            model = models(asking.split(" ")[0] if given[0] == "serve" else given[0])
            named = PORT.findall(command) if given[0] == "serve" else ["8117"]  # where it listens
            free = dict.fromkeys(named, "0") if given[0] == "serve" else {}  # also beside an earlier server
            words = [replaced(word, ports | free) for word in small(given, model, asks=asks)]
            if {DEFAULT_DECODER.name, "thor"} <= {*words}:  # its heads take a larger ring
                ring = {"plan": {"preset": "insecure_toy_n11"}}
                monkeypatch.setenv(*next(iter(variables(ring).items())))
            if words[0] in ("serve", "gateway") and "--check" not in words:
                ports.update(dict.fromkeys(named, servers.enter_context(serving(words))))
                continue
            status, _, err = run(*words)
            if "opencl:0" in words and not compiled.native.opencl_devices()[0]:  # as on a fresh machine
                assert status == 2 and "install" in err, f"tacita {command}\n{err}"
                continue
            assert status == 0, f"tacita {command}\n{err}"


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_sentences_and_tables_exist(page: Path) -> None:
    for program, command in INLINE.findall(page.read_text(encoding="utf-8")):
        words = shlex.split(command)
        given = {word for word in words if word.startswith("--")}
        known = options(*words, of=PROGRAMS[" ".join(program.split())]) | {"--help"}
        assert given <= known, f"{page.name}: {program} {command}"


@contextlib.contextmanager
def serving(words: list[str]) -> Iterator[str]:
    """The port of a server in a process of its own, from when it listens on."""
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
            yield said[-1].partition(",")[0].rpartition(":")[2]
        finally:
            server.kill()
            server.wait()


def replaced(word: str, ports: dict[str, str]) -> str:
    return PORT.sub(lambda shown_port: ports[shown_port[0]], word)


def small(words: list[str], model: Path, *, asks: bool) -> list[str]:
    """The command with its size options replaced, unless it asks a server; the shipped decoder is small as it
    is, but for the ring and the texts that it is calibrated on."""
    known = options(words[0])
    if {"generate", DEFAULT_DECODER.name} & set(words):
        values = {"--max-tokens": "4"}
        if "thor" in words:
            ring = "n14" if "--reveal" in words else "n11"  # a choice takes a ciphertext of four vocabularies
            values |= {"--tokens": "16", "--max-tokens": "2" if "--cache" in words else "1"}
            values |= {"--preset": f"insecure_toy_{ring}"}
        more = set() if "--connect" in words else {"--preset", "--texts"} & known
        values |= {"--texts": "written.txt"}
        values = {name: value for name, value in values.items() if name in {*words, *more}}
        return [*without(words, values), *itertools.chain(*values.items())]
    if words[:2] == ["plan", "show"] or "--connect" in words or (asks and words[0] in ASKING):
        return words
    values = {
        "--tokens": "16",
        "--preset": "insecure_toy_n10",
        "--model": str(model),
        "--texts": "calibration.txt",
    }
    if words[0] in ASKING and "--ray" not in words:  # which spreads what is encrypted
        values["--backend"] = "plain"
    added = [word for name, value in values.items() if name in known for word in (name, value)]
    return [*without(words, values), *added]


def without(words: list[str], names: dict[str, str]) -> Iterator[str]:
    """The words but for these options and their values."""
    rest = iter(words)
    for word in rest:
        if word in names:
            next(rest)
        else:
            yield word


def options(*words: str, of: typer.Typer = app) -> set[str]:
    """All options of the command, or the command of a group, that the words begin with."""
    found = typer.main.get_command(of)
    for word in words:
        found = getattr(found, "commands", {}).get(word, found)
    return {name for option in found.params for name in (*option.opts, *option.secondary_opts)}
