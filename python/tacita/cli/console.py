"""Writes to the screen for all commands: escaped foreign text, a progress bar, one-line errors, JSON
reports."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tacita.bar import drawn
from tacita.bar import duration as duration
from tacita.bar import shown as shown
from tacita.bar import size as size
from tacita.errors import FileError, InputError, TacitaError
from tacita.plans.files import replacing, write_text
from tacita.progress import Progress

# Exit statuses beside 0, all answered, and those of `app`
INCOMPLETE = 1  # lines were left out, or an answer has a warning
UNTRUSTED = 2  # an answer failed its checks and is not shown


class Screen(Console):
    """A console whose reader may leave, as `head` does: the rest of the output is dropped, and the command
    goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


out = Screen(highlight=False, emoji=False)
err = Screen(stderr=True, highlight=False, emoji=False)
STDOUT = Path("-")  # of --json
Report = Mapping[str, Any] | Sequence[Mapping[str, Any]]
MESSAGE = 2000  # characters of an error that are shown: paths can be long


def say(text: str) -> None:
    """Writes a line to stdout that is not broken at the screen's width. Foreign text in it is `shown`."""
    out.print(text, soft_wrap=True)


def warn(text: str) -> None:
    """Writes a warning to stderr, as `say`."""
    err.print(f"[yellow]warning:[/yellow] {text}", soft_wrap=True)


def show_rows(rows: Mapping[str, str]) -> None:
    """Writes a table of names and values."""
    table = Table(show_header=False, box=None)
    for row in rows.items():
        table.add_row(*row)
    out.print(table)


def fail(error: TacitaError) -> None:
    """Writes an error in one line on stderr: what clashed, then what to do."""
    hint = f" ({error.hint})" if error.hint else ""
    err.print(f"[red]error:[/red] {shown(str(error) + hint, MESSAGE)}", soft_wrap=True)


def finite(value: float | None) -> float | None:
    """Returns the value of an option. Raises InputError for nan and infinity, which no range leaves out."""
    if value is not None and not isfinite(value):
        raise InputError(f"{value}: a number is expected", hint="as 1.5")
    return value


def write_report(path: Path | None, report: Report) -> None:
    """Writes the JSON file of `--json`, whole or not at all; the path "-" stands for standard output."""
    if path == STDOUT:
        sys.stdout.write(json.dumps(report, indent=1) + "\n")
    elif path is not None:
        write_text(path, json.dumps(report, indent=1) + "\n")


class _UndoError(Exception):
    """Takes a file back that was written as a trial."""


def writable(path: Path | None) -> Path | None:
    """Returns the path of a file, if any. Raises FileError where it cannot be written: before the work whose
    result it takes."""
    if path is not None and path != STDOUT:
        with suppress(_UndoError), replacing(path):
            raise _UndoError
    return path


@contextmanager
def reporting(path: Path | None, report: Report) -> Iterator[None]:
    """Writes the file of `--json` before its body shows the same; if that fails, the error comes after the
    body."""
    try:
        write_report(path, report)
    except FileError:
        yield
        raise
    yield


def progress(title: str) -> AbstractContextManager[Callable[[Progress], None]]:
    """Returns a context whose value is a callback that draws a progress bar on stderr (`tacita.bar`)."""
    return drawn(title, err)


def several(count: int, noun: str) -> str:
    """Writes a count with its noun in the right number, as 1 text, 2 texts."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
