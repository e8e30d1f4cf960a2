"""`tacita fill` shows the likeliest words where a text has its mask token, for small vocabularies."""

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
from tacita.texts.fill import Fill

Top = Annotated[int, typer.Option("--top", help="Candidates to show for a mask.", min=1)]


@asking(*PLANNED)
@running
def run(
    asked: Asked,
    running: Running,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...]", help="Texts with a mask.", show_default=False)
    ] = None,
    file: TextFile = None,
    top: Top = 5,
) -> None:
    """Fill the masks of texts, which the tokenizer writes [MASK] or <mask>."""
    outcome = ask(Question("fill", lines_of("fill", texts or [], file), file), asked, running)
    for line, answer in outcome.answers:
        if isinstance(answer, Fill):
            show(line.text, answer, top)
    outcome.end()


def show(text: Text, answer: Fill, top: int) -> None:
    """Shows the candidates of each mask, the likeliest first, and below them the filled text."""
    for mask in answer.masks:
        table = Table(text_of(text, 60), "score")
        for each in mask.best(top):
            table.add_row(shown(each.label), f"{each.score:.3f}")
        out.print(table)
    out.print(shown(answer.text), soft_wrap=True)
