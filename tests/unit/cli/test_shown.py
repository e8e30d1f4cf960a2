"""Text of anybody on a terminal: neither a command of it nor of rich, whatever stands beside it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tacita.cli import console
from tacita.cli.console import fail, shown
from tacita.errors import FileError

HOSTILE = [
    "[/foo] a film",
    "[bold]x",
    "a\\",
    "\\[red]x",
    "[/a",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "a\r\nb\u2028c",
    "\u202eltr \u2066x",
    "\udcff",
    "\x00\x7f",
]


def printed(markup: str) -> str:
    file = io.StringIO()
    Console(file=file, width=500, highlight=False, emoji=False).print(markup)
    return file.getvalue().removesuffix("\n")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("other", ["]", "b]", "[/x]"])
def test_nothing_acts_and_tags_of_our_own_still_do(text: str, other: str) -> None:
    found = printed(f"[bold]{shown(text)}[/bold]{shown(other)}")
    assert found.isprintable()
    assert found.endswith(other)
    assert "bold]" not in found.replace("[bold]x", "")
    found.encode("utf-8")


def test_what_acts_is_told_as_python_writes_it() -> None:
    assert printed(shown("a\x1b[2J\n\u202eb\x9b\udc80")) == r"a\x1b[2J\n\u202eb\x9b\udc80"
    assert printed(shown(r"\x1b")) == r"\\x1b"  # not to be taken for the character itself


def test_ordinary_text_is_shown_as_it_is() -> None:
    text = "une œuvre [très] réussie :smile: 日本 👩\u200d💻"
    assert printed(shown(text)) == text


def test_long_text_is_cut() -> None:
    assert shown("x" * 300) == "x" * 197 + "..."
    assert shown("x" * 7, most=6) == "xxx..."
    assert shown("x" * 6, most=6) == "xxxxxx"


def test_an_error_is_one_harmless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=file, width=80, highlight=False))
    fail(FileError("request.ct: of kind '\x1b[2J\nerror: [/x]'", hint="[ask]"))
    assert file.getvalue() == r"error: request.ct: of kind '\x1b[2J\nerror: [/x]' ([ask])" + "\n"
