"""`tacita search` shows the documents nearest to a query.

With `--index` the documents are the client's: the server turns an encrypted query into an encrypted vector,
and this side decrypts it and scores its own vectors. Without, they are the server's (`tacita serve
--documents`): it scores the encrypted query against them, and this side decrypts the scores and sorts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tacita.cli.ask.core import PLANNED, Question, ask, lines_of
from tacita.cli.ask.running import Running, running
from tacita.cli.asked import Asked, asking
from tacita.cli.console import out, shown
from tacita.cli.options import TextFile, option
from tacita.errors import InputError
from tacita.texts.answer import Score
from tacita.texts.vectors import Index, Search

Searched = Annotated[
    Path | None,
    option("--index", help="Documents of your own, as `tacita embed --index` wrote them."),
]
Top = Annotated[int, typer.Option("--top", help="Documents to show for a query.", min=1)]


@asking(*PLANNED, "documents")
@running
def run(
    asked: Asked,
    running: Running,
    queries: Annotated[
        list[str] | None, typer.Argument(metavar="[QUERY...]", help="What to look for.", show_default=False)
    ] = None,
    file: TextFile = None,
    index: Searched = None,
    top: Top = 5,
) -> None:
    """Find the documents nearest to a query that the server never sees."""
    if index and asked.documents:
        raise InputError("--index with --documents", hint="one of the two: whose documents are searched")
    mine = Index.load(index) if index else None
    lines, verb = lines_of("search", queries or [], file), "embed" if mine else "search"
    outcome = ask(Question(verb, lines, file, suits=mine.require if mine else accept_any), asked, running)
    for line, answer in outcome.answers:
        if mine and answer.logits:
            show(str(line.text), mine.nearest(answer.vector, top))
        elif isinstance(answer, Search):
            show(str(line.text), with_texts(answer.best(top), asked.documents))
    outcome.end()


def accept_any(name: str, sha256: str) -> None:
    """Accepts any model: a server's documents need none of ours."""


def with_texts(scores: Sequence[Score], documents: Path | None) -> list[Score]:
    """Returns the scores with the documents' texts as labels, from a file of them; without one the labels
    stay numbers."""
    texts = Index.load(documents).texts if documents else None
    return [Score(texts[int(each.label)] if texts else each.label, each.score) for each in scores]


def show(query: str, nearest: Sequence[Score]) -> None:
    """Shows one line a document, the nearest first."""
    table = Table("", "score", shown(query, 60))
    for rank, each in enumerate(nearest, 1):
        table.add_row(str(rank), f"{each.score:.4f}", shown(each.label))
    out.print(table)
