"""Every command of the benchmarks page is one that exists, with data whose origin is known."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bench import app as benches
from bench import reproduce
from tacita.cli.app import COMMANDS
from tacita.errors import FileError, InputError

EVERY = reproduce.commands(reproduce.PAGE.read_text(encoding="utf-8"))
MAKE = (reproduce.ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", EVERY)
def test_a_command_of_the_page_exists_and_its_data_is_known(command: str) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", MAKE, re.MULTILINE)
    elif words[0] == "tacita":
        assert words[1] in {name for _, name, *_ in COMMANDS}
    else:
        assert words[3] in benches.COMMANDS
    assert all(reproduce.entries()[path]["origin"] for path in reproduce.needs(command))
    assert not re.search(r"\b(DIR|FILE|PEER|F)\b|\.\.\.|shared", command), "a placeholder"


def test_there_are_commands() -> None:
    assert len(EVERY) > 20


def test_data_without_an_entry_is_refused() -> None:
    with pytest.raises(InputError, match=r"build/data/unknown\.tsv"):
        reproduce.needs("tacita accuracy --data build/data/unknown.tsv")


def test_another_file_than_the_measured_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "ROOT", tmp_path)
    path, page = "build/data/sst2/dev.tsv", tmp_path / "page.md"
    assert reproduce.missing(path) == "not there"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("sentence\tlabel\n", encoding="utf-8")
    page.write_text(f"`tacita accuracy --data {path}`", encoding="utf-8")
    monkeypatch.setattr(reproduce, "PAGE", page)
    with pytest.raises(FileError, match="another file than the one that was measured"):
        reproduce.reproduce(1, fetch=False)


def test_a_command_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit status is that of the command."""
    page = tmp_path / "page.md"
    page.write_text("`tacita estimate --scheme none-such`", encoding="utf-8")
    monkeypatch.setattr(reproduce, "PAGE", page)
    with pytest.raises(Exception) as ended:
        reproduce.reproduce(1, fetch=False)
    assert getattr(ended.value, "exit_code", None) == 2
