"""`tacita answer` answers a question by a part of its context."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacita.cli.ask.columns import Line
from tacita.cli.ask.core import PLANNED, Question, ask
from tacita.cli.ask.running import Running, running
from tacita.cli.asked import Asked, asking
from tacita.cli.console import out, shown
from tacita.cli.options import option
from tacita.errors import InputError
from tacita.texts.embed import MAX_CHARACTERS
from tacita.texts.spans import Extract

Context = Annotated[str, option("--context", help="The text that holds the answer, or a file with it.")]


@asking(*PLANNED)
@running
def run(
    asked: Asked,
    running: Running,
    question: Annotated[str, typer.Argument(help="What to answer.", show_default=False)],
    context: Context,
) -> None:
    """Answer a question by a part of a context, neither of which the server sees."""
    if not question.strip():
        raise InputError("answer: the question is empty", hint="pass at least one word")
    outcome = ask(Question("answer", [Line(1, (question, read_context(context)))]), asked, running)
    for _, answer in outcome.answers:
        if isinstance(answer, Extract):
            show(answer)
    outcome.end()


def read_context(given: str) -> str:
    """Reads the file of this name, or returns the text itself where there is none. Raises InputError for a
    file that cannot be read, is huge, or is empty."""
    path = Path(given)
    try:
        if not path.is_file():
            return given
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1).strip()
    except OSError as error:
        if not path.suffix or " " in given:  # a text may be too long for the name of a file
            return given
        raise InputError(f"{path}: cannot be read ({error})", hint="a file of text") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error.reason})", hint="a file of text") from error
    if not text or len(text) > MAX_CHARACTERS:
        raise InputError(f"{path}: empty, or over {MAX_CHARACTERS} characters", hint="split it")
    return text


def show(answer: Extract) -> None:
    """Shows the span, where it stands, and how sure the model is."""
    span = answer.span
    where = f"characters {span.start} to {span.end} of the context"
    out.print(f"[bold]{shown(span.text)}[/bold]   {where}, score {span.score:.3f}", soft_wrap=True)
