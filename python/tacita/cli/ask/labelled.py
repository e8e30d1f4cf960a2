"""A .tsv file of labelled texts: a header line, then text, tab, label number; by line what of it cannot be
used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacita.checkpoint import Checkpoint
from tacita.cli.ask.lines import Line, checked, read_lines
from tacita.errors import InputError


@dataclass(frozen=True)
class Labelled:
    """A text and its label number; -1 when `line.problem` says why there is none."""

    line: Line
    label: int


def read_labelled(path: Path) -> list[Labelled]:
    """All lines but the header and blank ones; malformed ones and those that are not UTF-8 with a problem.

    Raises InputError for a file that cannot be read, is huge, or holds no text.
    """
    return [_labelled(line) for line in read_lines(path) if line.number > 1]


def fitted(model: Checkpoint, examples: list[Labelled], tokens: int) -> list[Labelled]:
    """The same, those over `tokens` tokens or the model's positions with a problem."""
    lines = checked(model, [example.line for example in examples], tokens)
    return [Labelled(line, example.label) for line, example in zip(lines, examples, strict=True)]


def read_examples(path: Path) -> list[tuple[str, int]]:
    """(text, label) pairs of a file that is expected to be whole. Raises InputError naming the first line
    that is not."""
    examples = read_labelled(path)
    for example in examples:
        if example.line.problem:
            number, problem = example.line.number, example.line.problem
            raise InputError(f"{path}:{number}: {problem}", hint="check the file's columns")
    return [(example.line.text, example.label) for example in examples]


def _labelled(line: Line) -> Labelled:
    if line.problem:
        return Labelled(line, -1)
    text, _, label = line.text.rpartition("\t")
    if not text.strip() or not label.strip().isdecimal():
        return Labelled(Line(line.number, "", "not a sentence, a tab and a label number"), -1)
    return Labelled(Line(line.number, text.strip()), int(label))
