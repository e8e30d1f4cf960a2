"""Writes lines between two markers of a document."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from bench.options import ROOT

DOCS = ROOT / "docs"
WIDTH = 110


def markers(name: str) -> tuple[str, str]:
    """The lines before and behind what is written under this name."""
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"


def write(page: Path, name: str, lines: Iterable[str]) -> None:
    """Replaces what stands between the markers of that name."""
    page.write_text(replaced(page.read_text(encoding="utf-8"), name, "\n".join(lines) + "\n"), "utf-8")


def replaced(page: str, name: str, lines: str) -> str:
    """The page with new text between its markers, sentences wrapped as in all documents."""
    begin, end = markers(name)
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return before + begin + wrapped(lines) + end + after


def wrapped(lines: str) -> str:
    """Lines of at most `WIDTH` columns but for rows of tables."""
    return "\n".join(line if line.startswith("|") else _filled(line) for line in lines.split("\n"))


def _filled(line: str) -> str:
    return textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)
