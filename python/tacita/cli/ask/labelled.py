"""A .tsv file of labelled texts or pairs: a header that names its columns (`columns`), then text, label
number, with tabs between; by line what of it cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tacita.checkpoint import Checkpoint
from tacita.cli.ask.columns import Columns, columns_of
from tacita.cli.ask.lines import Line, checked, read_lines
from tacita.errors import InputError
from tacita.front.embed import Text


@dataclass(frozen=True)
class Labelled:
    """A text and its label number, of a regression the number; -1 when `line.problem` says why there is
    none."""

    line: Line
    label: float


def read_labelled(path: Path, *, real: bool = False) -> list[Labelled]:
    """All lines but the header and blank ones; malformed ones and those that are not UTF-8 with a problem.
    real: the labels are numbers of a regression.

    Raises InputError for a file that cannot be read, is huge, or holds no text.
    """
    header, *lines = read_lines(path)
    columns = columns_of(str(header.text))
    if columns.label is None:
        raise InputError(f"{path}: its header names no label", hint="text, label or text, text2, label")
    return [_labelled(line, columns, _real if real else _number) for line in lines]


def fitted(model: Checkpoint, examples: list[Labelled], tokens: int) -> list[Labelled]:
    """The same, those over `tokens` tokens or the model's positions with a problem."""
    lines = checked(model, [example.line for example in examples], tokens)
    return [Labelled(line, example.label) for line, example in zip(lines, examples, strict=True)]


def read_examples(path: Path) -> list[tuple[Text, int]]:
    """(text, label) pairs of a file that is expected to be whole. Raises InputError naming the first line
    that is not."""
    examples = read_labelled(path)
    for example in examples:
        if example.line.problem:
            number, problem = example.line.number, example.line.problem
            raise InputError(f"{path}:{number}: {problem}", hint="check the file's columns")
    return [(example.line.text, int(example.label)) for example in examples]


def _labelled(line: Line, columns: Columns, read: Callable[[str], float | None]) -> Labelled:
    if line.problem:
        return Labelled(line, -1)
    cells, at = str(line.text).split("\t"), columns.label or 0
    text, label = columns.text(str(line.text)), read(cells[at].strip()) if at < len(cells) else None
    if text is None or label is None:
        wanted = "a sentence" if len(columns.texts) == 1 else "two texts"
        return Labelled(Line(line.number, "", f"not {wanted}, a tab and a label number"), -1)
    return Labelled(Line(line.number, text), label)


def _number(cell: str) -> float | None:
    return int(cell) if cell.isdecimal() else None


def _real(cell: str) -> float | None:
    try:
        return found if math.isfinite(found := float(cell)) else None
    except ValueError:
        return None
