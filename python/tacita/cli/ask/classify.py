"""`tacita classify` labels texts or pairs of texts, on the interpreter of choice."""

from __future__ import annotations

from typing import Annotated

import typer

from tacita.cli.ask.core import PLANNED, Question, ask, lines_of
from tacita.cli.ask.running import Running, running
from tacita.cli.asked import Asked, asking
from tacita.cli.options import Pair, TextFile


@asking(*PLANNED)
@running
def run(
    asked: Asked,
    running: Running,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...]", help="Texts to classify.", show_default=False)
    ] = None,
    file: TextFile = None,
    pair: Pair = False,
) -> None:
    """Classify texts and show each answer beside the float model's; or with a server, by --connect."""
    lines = lines_of("classify", texts or [], file, pair=pair)
    ask(Question("classify", lines, file, others=("embed", "search")), asked, running).end()
