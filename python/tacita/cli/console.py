"""What the commands share on screen: foreign text made harmless, a progress bar, one-line errors, JSON
reports."""

from __future__ import annotations

import json
import os
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from tacita.errors import FileError, TacitaError
from tacita.protocol.files import write_text
from tacita.run.executor import Progress

# Exit statuses beside 0, all answered, and those of `app`
INCOMPLETE = 1  # lines were left out, or an answer has a warning
UNTRUSTED = 2  # an answer failed its checks and is not shown


class Screen(Console):
    """A console whose reader may leave, as `head` does: the rest of the output goes nowhere, the command goes
    on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


out = Screen(highlight=False, emoji=False)
err = Screen(stderr=True, highlight=False, emoji=False)
QUIET_SECONDS = 2.0  # shorter steps show no bar
MESSAGE = 2000  # characters of an error that are shown: paths can be long
ACTING = (
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
)  # Unicode categories: control, format, lone surrogate, line, paragraph
JOINERS = "\u200c\u200d"  # format characters that scripts and emoji need, and that move nothing


def shown(text: str, most: int = 200) -> str:
    """Text of anybody, as it may stand in what `out` and `err` print: it can neither command the terminal nor
    rich.

    Control characters (escape sequences, C1, line ends, bidirectional overrides, lone surrogates) and
    backslashes come out as in a Python literal, opening brackets as rich wants them. Text over `most`
    characters is cut.
    """
    cut = text if len(text) <= most else text[: max(0, most - 3)] + "..."
    return "".join(map(_harmless, cut))


def _harmless(character: str) -> str:
    """Doubled backslashes keep what follows, a tag of our own or an escaped bracket, what it is."""
    if character == "[":
        return r"\["
    if character == "\\" or (unicodedata.category(character) in ACTING and character not in JOINERS):
        return character.encode("unicode_escape").decode("ascii")
    return character


def fail(error: TacitaError) -> None:
    """One line on stderr: what clashed, then what to do."""
    hint = f" ({error.hint})" if error.hint else ""
    err.print(f"[red]error:[/red] {shown(str(error) + hint, MESSAGE)}", soft_wrap=True)


def write_report(path: Path | None, report: Mapping[str, Any]) -> None:
    """Writes the JSON file of `--json`, whole or not at all."""
    if path is not None:
        write_text(path, json.dumps(report, indent=1) + "\n")


@contextmanager
def reporting(path: Path | None, report: Mapping[str, Any]) -> Iterator[None]:
    """Writes the file of `--json` before its body shows the same; if that fails, the error comes after the
    body."""
    problem: FileError | None = None
    try:
        write_report(path, report)
    except FileError as error:
        problem = error
    yield
    if problem is not None:
        raise problem


@contextmanager
def progress(title: str) -> Iterator[Callable[[Progress], None]]:
    """A callback that draws a bar on stderr once the step has run for two seconds and its end is not near."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[left]}"),
    )
    bar = Bar(*columns, console=err, transient=True, disable=not err.is_terminal)
    task = bar.add_task(title, total=None, left="")
    began = time.monotonic()
    started = False

    def report(now: Progress) -> None:
        nonlocal started
        if not started and (now.left > QUIET_SECONDS or time.monotonic() - began > QUIET_SECONDS):
            bar.start()
            started = True
        description = f"{title}: {shown(now.stage)} ({min(now.index + 1, now.total)}/{now.total})"
        done = now.seconds / (now.seconds + now.left) if now.seconds + now.left > 0 else 0.0
        bar.update(
            task, total=1.0, completed=done, description=description, left=f"{duration(now.left)} left"
        )

    try:
        yield report
    finally:
        if started:
            bar.stop()


def duration(seconds: float) -> str:
    """Seconds for people: 0.4 s, 12 s, 3 min 05 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 90 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def size(count: float) -> str:
    """Bytes for people, decimal units."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def several(count: int, noun: str) -> str:
    """1 text, 2 texts."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
