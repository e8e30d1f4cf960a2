"""`tacita embed` turns texts into vectors, in a file of vectors or an index to search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tacita.cli.ask.core import PLANNED, Outcome, Question, ask, lines_of
from tacita.cli.ask.running import Running, running
from tacita.cli.asked import Asked, asking
from tacita.cli.console import out, several, shown
from tacita.cli.options import Pair, TextFile, option
from tacita.errors import FileError, InputError
from tacita.plans.files import replacing
from tacita.texts.embed import parts_of
from tacita.texts.vectors import Index

Output = Annotated[
    Path | None,
    option("--output", help="Write the vectors here: .npy (texts, numbers), or .json (a list of lists)."),
]
NewIndex = Annotated[
    Path | None,
    option("--index", help="Write vectors and texts here, for `tacita search --index`."),
]
SUFFIXES = (".npy", ".json")


@asking(*PLANNED)
@running
def run(
    asked: Asked,
    running: Running,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...]", help="Texts to embed.", show_default=False)
    ] = None,
    file: TextFile = None,
    pair: Pair = False,
    output: Output = None,
    index: NewIndex = None,
) -> None:
    """Turn texts into vectors, with a model that has no classifier."""
    if output and output.suffix not in SUFFIXES:
        raise InputError(f"--output {output}: neither .npy nor .json", hint="name the file by its format")
    outcome = ask(Question("embed", lines_of("embed", texts or [], file, pair=pair), file), asked, running)
    if output:
        write_vectors(output, outcome)
    if index:
        documents = index_of(outcome)
        documents.save(index)
        out.print(f"index: {shown(str(index))}, {several(len(documents.texts), 'document')}", soft_wrap=True)
    outcome.end()


def write_vectors(path: Path, outcome: Outcome) -> None:
    """Writes the file of `--output`, whole or not at all: a vector for each text, NaN (in JSON null) in place
    of one that failed its checks. Raises FileError."""
    answers = [answer.vector if answer.logits else None for _, answer in outcome.answers]
    width = max((len(vector) for vector in answers if vector is not None), default=0)
    vectors = np.stack([np.full(width, np.nan) if vector is None else vector for vector in answers])
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            if path.suffix == ".npy":
                np.save(file, vectors)
            else:
                rows = [None if vector is None else vector.tolist() for vector in answers]
                file.write(json.dumps(rows).encode())
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error})", hint="choose another file") from error


def index_of(outcome: Outcome) -> Index:
    """Makes an index of the texts and vectors of an outcome; those of an answer with warnings are left out.
    Raises InputError where none is left."""
    trusted = [(line, answer) for line, answer in outcome.answers if not answer.warnings]
    if not trusted:
        raise InputError("embed: no vector can be trusted", hint="see the warnings above")
    texts = tuple(" | ".join(parts_of(line.text)) for line, _ in trusted)
    return Index(outcome.model, outcome.sha256, texts, np.stack([answer.vector for _, answer in trusted]))
