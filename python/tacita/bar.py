"""Draws in a terminal or a notebook: a progress bar (what runs, how far it is, the time so far and the time
left), and in a notebook results, as small tables in HTML.

>>> with reporting(draw, "plan") as report:    # nothing is drawn where nobody looks
...     report(Progress("calibrate rows", 0, 4, 0.0, 15.0))

>>> card("Classes", {"answer": "<b>"}, [("positive", "", 0.963)]).count("&lt;b&gt;")
1

Everything that is drawn is escaped: a model's labels and a text are anybody's.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from tacita.progress import Progress, silent

if TYPE_CHECKING:
    from tacita.texts.answer import Answer
    from tacita.texts.ranking import Ranking

Report = Callable[[Progress], None]
QUIET_SECONDS, LONG_SECONDS = 2.0, 5.0  # shorter steps show no bar; longer ones say before it what they take
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


def draw(_: Progress) -> None:
    """Stands for a bar on stderr, the default of calls: see `reporting`."""


@contextmanager
def reporting(report: Report | None, title: str) -> Iterator[Report]:
    """Yields the caller's own report; for `draw` one that draws a bar on stderr, where that is a terminal or
    a notebook; for None one that says nothing."""
    if report is not draw:
        yield report or silent
        return
    with drawn(title, Console(stderr=True, highlight=False, emoji=False)) as bar:
        yield bar


@contextmanager
def drawn(title: str, console: Console) -> Iterator[Report]:
    """Yields a callback that draws a bar once more than two seconds have passed, or are predicted to remain.
    Where that is more than five, a line before it says how many, and stays."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeLeft()
    interactive = console.is_terminal or console.is_jupyter
    bar = Bar(*columns, console=console, transient=True, disable=not interactive)
    task = bar.add_task(title, total=None, end=time.monotonic())
    began, started = time.monotonic(), False

    def report(now: Progress) -> None:
        nonlocal started
        moment = time.monotonic()
        description = f"{title}: {shown(now.stage)} ({min(now.index + 1, now.total)}/{now.total})"
        done = now.seconds / (now.seconds + now.left) if now.seconds + now.left > 0 else 0.0
        bar.update(task, total=1.0, completed=done, description=description, end=moment + now.left)
        if not started and (now.left > QUIET_SECONDS or moment - began > QUIET_SECONDS):
            if now.left > LONG_SECONDS and interactive:
                console.print(f"{title}: {shown(now.stage)} first, about {duration(now.left)} in all")
            bar.start()
            started = True

    try:
        yield report
    finally:
        if started:
            bar.stop()


class TimeLeft(ProgressColumn):
    """Counts down between reports, to what the last one predicted. A step that takes longer says so."""

    def render(self, task: Task) -> Text:
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


# Results in a notebook, in the colours of the page around them.

Score = tuple[str, str, float | None]  # what, where or which, from 0 to 1
MOST, LONGEST = 10, 200  # rows of scores; characters of a cell
STYLE = "text-align:left;padding:2px 10px;vertical-align:top"


def card(title: str, rows: Mapping[str, str], scores: Sequence[Score] = ()) -> str:
    """Returns a table: a title, rows of names and values, and a bar for each score."""
    lines = [_row("th", name, _cell(value)) for name, value in rows.items()]
    lines += [_row("td", what, _bar(of, score)) for what, of, score in scores[:MOST]]
    if len(scores) > MOST:
        lines.append(_row("td", "", f"and {len(scores) - MOST} more"))
    head = f"<caption style='{STYLE};font-weight:bold'>{_cell(title)}</caption>"
    return f"<table style='border-collapse:collapse'>{head}{''.join(lines)}</table>"


def _row(tag: str, name: str, value: str) -> str:
    first = f"<{tag} style='{STYLE}'>{_cell(name)}</{tag}>"
    return f"<tr>{first}<td style='{STYLE}'>{value}</td></tr>"


def _cell(text: str) -> str:
    return escape(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")


def _bar(label: str, score: float | None) -> str:
    """Draws a score beside its label; only one from 0 to 1 has a bar."""
    if score is None:
        return _cell(label)
    width = 120 * min(max(score, 0.0), 1.0)
    bar = f"display:inline-block;width:{width:.0f}px;height:0.7em;background:currentColor;opacity:0.5"
    return f"{_cell(label)} <span style='{bar}'></span> {score:.3f}"


def answer_card(answer: Answer | Ranking) -> str:
    """Draws an answer of any task: what it says, what protected the text, the warnings, the scores."""
    summary, doubts = getattr(answer, "summary", ""), getattr(answer, "warnings", ())  # of one answer
    rows = {"answer": summary} if summary else {}
    rows["privacy"] = answer.privacy or "unknown"
    rows |= {f"warning {number}": each for number, each in enumerate(doubts[:MOST], 1)}
    return card(type(answer).__name__, rows, _scores(answer))


def _scores(answer: Answer | Ranking) -> list[Score]:
    from tacita.texts.ranking import Ranking
    from tacita.texts.spans import Extract, Fill, Tags

    match answer:
        case Ranking():
            return [(each.document, "", each.score) for each in answer.ranks]
        case Tags():
            return [(span.text, span.label, span.score) for span in answer.spans]
        case Extract() if not answer.empty:
            where = f"characters {answer.span.start} to {answer.span.end}"
            return [(answer.span.text, where, answer.span.score)]
        case Fill():
            masks = enumerate(answer.masks, 1)
            return [(one.label, f"mask {n}", one.score) for n, mask in masks for one in mask.best()]
    return [(each.label, "", each.score) for each in getattr(answer, "scores", ())]


def plan_card(plan: Any, links: Mapping[str, Any]) -> str:
    """Draws what a request of a plan costs, on the machine of its prices and over links, and what protects a
    text."""
    rows = {"scheme": f"{plan.scheme}, {plan.batch} texts a request of up to {plan.tokens} tokens"}
    rows |= {"protection": plan.privacy, "a request": duration(plan.predicted_seconds())}
    rows |= {f"over {name}": duration(plan.predicted_seconds(link)) for name, link in links.items()}
    rows["sent, both ways"] = size(plan.predicted_bytes())
    if once := getattr(plan, "prediction", None):  # of ciphertexts
        rows["keys, once"] = f"{size(once.bytes['evaluation_keys'])}, {duration(once.seconds['keygen'])}"
        rows |= {"bootstraps": str(plan.bootstraps), "error of the logits": str(once.error)}
    return card(f"Plan of {plan.name}", rows)


class Estimate(dict[str, Any]):
    """What a run would cost: a scheme's figures by name, as `tacita estimate --json` writes them."""

    def __repr__(self) -> str:
        """Returns at most 300 characters."""
        texts, seconds = f"inputs={self['inputs']}", f"wall_seconds={self['wall_seconds']:.3g}"
        return f"Estimate({self['model']!r:.80}, scheme={self['scheme']!r}, {texts}, {seconds}, ...)"

    def _repr_html_(self) -> str:
        """Draws the figures that are one number or one text."""
        rows = {"wall_seconds": duration(self["wall_seconds"])}
        rows |= {k: f"{v:,}" if isinstance(v, int) else f"{v:.4g}" for k, v in self.items() if _number(v)}
        for name, many in self.items():
            if isinstance(many, dict) and many and all(map(_number, many.values())):
                rows |= {f"{name}: {k}": size(v) if "bytes" in name else f"{v:.3g}" for k, v in many.items()}
        rows = {name: rows[name] for name in rows if not name.startswith("stage_")}
        return card(f"Estimate of {self['model']} by {self['scheme']}", rows)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
