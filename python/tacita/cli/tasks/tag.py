"""`tacita tag` shows the spans of a text that a token classifier marks, names and places for example."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from tacita.cli.ask.core import PLANNED, Question, ask, lines_of
from tacita.cli.ask.running import Running, running
from tacita.cli.asked import Asked, asking, text_of
from tacita.cli.console import out, shown
from tacita.cli.options import TextFile
from tacita.texts.embed import Text
from tacita.texts.spans import Tags


@asking(*PLANNED)
@running
def run(
    asked: Asked,
    running: Running,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...]", help="Texts to tag.", show_default=False)
    ] = None,
    file: TextFile = None,
) -> None:
    """Mark the spans of texts, each with its characters and score."""
    outcome = ask(Question("tag", lines_of("tag", texts or [], file), file), asked, running)
    for line, answer in outcome.answers:
        if isinstance(answer, Tags):
            show(line.text, answer)
    outcome.end()


def show(text: Text, answer: Tags) -> None:
    """Shows one line a span."""
    table = Table(text_of(text, 60), "label", "characters", "score")
    for span in answer.spans:
        where = f"{span.start} to {span.end}"
        table.add_row(shown(span.text), shown(span.label), where, f"{span.score:.3f}")
    out.print(table)
