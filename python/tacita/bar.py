"""Draws a progress bar in a terminal or a notebook: what runs, how far it is, the time so far and the time
left.

>>> with reporting(None, "plan") as report:    # nothing is drawn where nobody looks
...     report(Progress("calibrate rows", 0, 4, 0.0, 15.0))
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from tacita.progress import Progress

Report = Callable[[Progress], None]
QUIET_SECONDS = 2.0  # shorter steps show no bar
ACTING = (
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
)  # Unicode categories: control, format, lone surrogate, line, paragraph
JOINERS = "\u200c\u200d"  # format characters that scripts and emoji need, and that move nothing


def shown(text: str, most: int = 200) -> str:
    """Escapes anybody's text for what `out` and `err` print: it can command neither the terminal nor rich.

    Control characters (escape sequences, C1, line ends, bidirectional overrides, lone surrogates) and
    backslashes come out as in a Python literal, opening brackets as rich wants them. Text over `most`
    characters is cut.
    """
    cut = text if len(text) <= most else text[: max(0, most - 3)] + "..."
    return "".join(map(_harmless, cut))


def _harmless(character: str) -> str:
    """Escapes a character. A doubled backslash keeps what follows, a tag of our own or an escaped bracket."""
    if character == "[":
        return r"\["
    if character == "\\" or (unicodedata.category(character) in ACTING and character not in JOINERS):
        return character.encode("unicode_escape").decode("ascii")
    return character


@contextmanager
def reporting(report: Report | None, title: str) -> Iterator[Report]:
    """Yields the caller's own report, or a callback that draws a bar on stderr."""
    if report is not None:
        yield report
        return
    with drawn(title, Console(stderr=True, highlight=False, emoji=False)) as bar:
        yield bar


@contextmanager
def drawn(title: str, console: Console) -> Iterator[Report]:
    """Yields a callback that draws a bar once more than two seconds have passed, or are predicted to
    remain."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeLeft()
    interactive = console.is_terminal or console.is_jupyter
    bar = Bar(*columns, console=console, transient=True, disable=not interactive)
    task = bar.add_task(title, total=None, end=time.monotonic())
    began, started = time.monotonic(), False

    def report(now: Progress) -> None:
        nonlocal started
        moment = time.monotonic()
        if not started and (now.left > QUIET_SECONDS or moment - began > QUIET_SECONDS):
            bar.start()
            started = True
        description = f"{title}: {shown(now.stage)} ({min(now.index + 1, now.total)}/{now.total})"
        done = now.seconds / (now.seconds + now.left) if now.seconds + now.left > 0 else 0.0
        bar.update(task, total=1.0, completed=done, description=description, end=moment + now.left)

    try:
        yield report
    finally:
        if started:
            bar.stop()


class TimeLeft(ProgressColumn):
    """Counts down between reports, to what the last one predicted. A step that takes longer says so."""

    def render(self, task: Task) -> Text:
        """Draws the time left; rich calls this several times a second."""
        remaining = task.fields["end"] - time.monotonic()
        return Text(f"{duration(remaining)} left" if remaining > 0 else "longer than predicted")


def duration(seconds: float) -> str:
    """Writes seconds for people: 0.4 s, 12 s, 3 min 05 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 90 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def size(count: float) -> str:
    """Writes a number of bytes in decimal units."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"
