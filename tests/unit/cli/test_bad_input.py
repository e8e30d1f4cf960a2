"""Numbers, files and folders that cannot be: an error in one line, before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import run

from tacita.cli.options import read_settings
from tacita.cli.steps import read_states
from tacita.errors import InputError, TacitaError

CONNECTED = ["--connect", "https://127.0.0.1:1"]
HTTPS = ["--https", "127.0.0.1:0", "--data", "d"]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, without settings."""
    monkeypatch.chdir(tmp_path)


def end(*given: Any, **more: Any) -> Any:
    raise InputError("seen", hint="")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_number_is_finite(value: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f"[network]\ntimeout = {value}\n")
    with pytest.raises(TacitaError, match="timeout"):
        read_settings(tmp_path / "s.toml")
    status, out, err = run("choose", "--seconds", value)
    assert (status, out) == (2, "") and "Traceback" not in err


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("place", ["folder", "", ".", "/", "file/x.json"])
def test_a_report_that_cannot_be_written_is_refused_before_any_work(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tacita.cli.ask.core.load_model", end)
    monkeypatch.setattr("tacita.cli.ask.remote.ask", end)
    for more in (["--backend", "sim"], CONNECTED):
        status, _, err = run("classify", "fine", *more, "--json", place)
        assert status == 2 and err.startswith("error: ") and "seen" not in err, err


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    "words",
    [
        ["estimate", "--model", "x" * 300],
        ["recheck", "x" * 300],
        ["token", "add", "clinic", "--data", "file"],
        ["token", "add", "clinic", "--data", "file/x"],
        ["serve", *HTTPS, "--certificate", "folder", "--key", "folder"],
        ["serve", *HTTPS, "--certificate", "file", "--key", "file"],
        ["accuracy", "--data", "header.tsv", "--preset", "insecure_toy_n10", "--tokens", "16"],
    ],
)
def test_a_file_that_cannot_be_one_is_an_error_in_a_line(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "header.tsv").write_text("sentence\tlabel\n")
    status, _, err = run(*words)
    assert status == 2 and err.startswith("error: ") and len(err.splitlines()) == 1, err


def test_hidden_states_are_one_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "many.npz", states=np.zeros((2, 3)))
    with pytest.raises(InputError, match="not an array of hidden states"):
        read_states(tmp_path / "many.npz")
