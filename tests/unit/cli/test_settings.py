"""Settings: which source comes first, what is refused, and that docs/settings.md lists all of them."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from test_cli import run

from tacita.cli.app import app
from tacita.cli.options import read_settings
from tacita.errors import TacitaError
from tacita.settings import PANELS

ROOT = Path(__file__).parents[3]


def test_the_command_line_comes_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tacita.toml"
    file.write_text('[plan]\ntokens = 16\ninputs = 5\nscheme = "moai"\n[run]\nbackend = "sim"\n')
    monkeypatch.setenv("TACITA_PLAN__TOKENS", "32")
    monkeypatch.setenv("TACITA_PLAN__INPUTS", "6")
    monkeypatch.setenv("TACITA_TOKEN", "a secret is no setting")
    settings = read_settings(file, {"plan": {"tokens": 64}})
    plan = settings.plan
    assert (plan.tokens, plan.inputs, plan.scheme, plan.preset) == (64, 6, "moai", "n16")
    assert settings.run.backend == "sim"
    assert read_settings().plan.tokens == 32


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[plan]\ntoken = 'secret'", "[plan] token: no such setting", "did you mean tokens?"),
        ("[pln]\ntokens = 'secret'", "[pln]: no such setting", "did you mean plan?"),
        ("[plan]\ntokens = 'many'", "[plan] tokens: 'many': Input should be a valid integer", "docs/"),
        ("[plan]\ntokens = true", "[plan] tokens: 'True': Value error, a number is expected", "docs/"),
        ("[plan]\ntokens = 0", "[plan] tokens: '0': Input should be greater than or equal to 1", "docs/"),
        ("[run]\nbackend = 'cks'", "[run] backend: 'cks': Input should be 'plain', 'sim' or 'ckks'", "docs/"),
        ("plan = 3", "[plan]: '3': Input should be a valid dictionary", "docs/"),
        ("[plan", "cannot be read as settings", "docs/"),
        (None, "cannot be read as settings", "docs/"),
    ],
)
def test_what_a_file_cannot_say_is_refused_with_its_place(
    text: str | None, message: str, hint: str, tmp_path: Path
) -> None:
    file = tmp_path / "tacita.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(TacitaError) as caught:
        read_settings(file)
    assert str(caught.value).startswith(f"{file}: ") and message in str(caught.value)
    assert hint in caught.value.hint and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TACITA_PLAN__TOKENS", "x", "TACITA_PLAN__TOKENS: 'x': Input should be a valid integer"),
        ("TACITA_PLAN__TOKNS", "1", "TACITA_PLAN__TOKNS: no such setting"),
        ("TACITA_PLN__TOKENS", "1", "TACITA_PLN__TOKENS: no such setting"),
    ],
)
def test_a_variable_is_refused_by_its_name(
    name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(TacitaError) as caught:
        read_settings()
    assert str(caught.value).startswith(message)


def test_docs_list_every_setting() -> None:
    """`python .ci/settings.py --write` lists them anew."""
    sys.path.insert(0, str(ROOT / ".ci"))
    listing = importlib.import_module("settings")
    assert listing.tables() in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def test_a_command_reads_the_file_of_its_folder_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tacita.toml").write_text('[plan]\nprices = "/nowhere.json"\n')
    (tmp_path / "mine.toml").write_text('[plan]\nscheme = "thorn"\n')
    status, _, err = run("estimate")
    assert status == 2 and err.startswith("settings: tacita.toml\n") and "not a price table" in err
    status, _, err = run("estimate", "--config", "mine.toml")
    assert status == 2 and err.startswith("error: no scheme 'thorn'")
    status, _, err = run("estimate", "--config", "none.toml")
    assert status == 2 and "none.toml: cannot be read as settings" in err
    status, _, err = run("demo-service", "--tokens", "0")
    assert status == 2 and "--tokens: '0': Input should be greater than or equal to 1" in err


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["serve", "--drain", "3"], "--drain is now [service] drain"),
        (["classify", "fine", "--ray-nodes", "2"], "--ray-nodes is now [ray] nodes"),
        (
            ["embed", "fine", "--insecure-plain-tcp"],
            "--insecure-plain-tcp is now [network] insecure_plain_tcp",
        ),
    ],
)
def test_an_option_that_is_a_setting_now_says_where_it_went(words: list[str], place: str) -> None:
    status, _, err = run(*words)
    assert status == 2 and f"error: {place} in tacita.toml, or the variable TACITA_" in err
    status, _, err = run("token", "list", "--drain", "3")
    assert status == 2 and "No such option" in err


ASKING = {"classify", "embed", "search", "tag", "answer", "fill", "rerank"}


def commands(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    yield " ".join(path), command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, *path, name)


def test_a_command_has_few_options() -> None:
    """What a first user needs; the others are settings."""
    for name, command in commands(typer.main.get_command(app)):
        options = [each for each in command.params if each.param_type_name == "option"]
        assert len(options) <= (14 if name in ASKING else 19), name


def panels(out: str) -> dict[str, list[str]]:
    """The names that stand first in the lines of each panel, by its title."""
    found: dict[str, list[str]] = {}
    for line in out.splitlines():
        if title := re.match(r"╭─ (\w+) ─", line):
            found[title[1]] = []
        elif name := re.match(r"│ {1,3}(?:\* {1,4})?(--[\w-]+|\w[\w-]*) ", line):
            found[list(found)[-1]].append(name[1])
    return found


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("narrow")
def test_the_list_of_commands_fits_a_screen_in_panels() -> None:
    status, out, _ = run("--help")
    assert status == 0 and 24 <= len(out.splitlines()) <= 45
    found = panels(out)
    assert [*found] == ["Options", "Ask", "Plan", "Server"]
    assert {"classify", "embed", "generate"} <= {*found["Ask"]} and "serve" in found["Server"]
    assert "estimate" in found["Plan"] and "keygen" in out
    _, out, _ = run("--help-all")
    assert {"keygen", "encrypt", "evaluate", "decrypt"} <= {*panels(out)["Expert"]}
    assert "--show-completion" in out


@pytest.mark.usefixtures("narrow")
def test_help_stands_in_panels_with_a_sentence_an_option() -> None:
    _, out, _ = run("classify", "--help")
    assert len(out.splitlines()) <= 60
    assert panels(out) == {
        "Arguments": ["TEXT"],
        "Options": ["--config", "--json", "--help"],
        "Ask": ["--file", "--pair", "--model", "--backend"],
        "Plan": ["--scheme", "--tokens"],
        "Server": ["--connect", "--trust"],
        "Cluster": ["--ray"],
        "Expert": ["--preset", "--texts", "--device"],
    }
    assert "fifth" not in out and "classify --help-all" in out
    status, out, _ = run("classify", "--help-all")
    assert status == 0 and "fifth" in out and "Options in full" not in out


@pytest.mark.usefixtures("narrow")
def test_no_help_is_a_wall_or_gives_flags_a_type() -> None:
    for name, command in commands(typer.main.get_command(app)):
        _, out, _ = run(*name.split(), "--help")
        assert "<bool>" not in out, name
        assert len(out.splitlines()) <= 75, (name, len(out.splitlines()))
        known = {*PANELS, None}
        assert {getattr(each, "rich_help_panel", None) for each in command.params} <= known, name
