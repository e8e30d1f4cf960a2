r"""Reads files of texts, by line or by columns that the names in the first line tell.

>>> columns_of("sentence\tlabel")
Columns(texts=(0,), label=1)
>>> columns_of("idx\tsentence1\tsentence2\tlabel")    # pairs, as in MRPC and RTE
Columns(texts=(1, 2), label=3)
>>> columns_of("question\tsentence")
Columns(texts=(0, 1), label=None)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from tacita.cli.console import INCOMPLETE, err, shown
from tacita.errors import InputError
from tacita.texts.embed import Text, embed, length_of
from tacita.texts.embedding import Embedder

LABELS = ("label", "labels", "class", "target", "score")
COUNTERS = ("idx", "index", "id")
# Names of a second text; with any other name the second of two columns is the label
SECONDS = (
    "text2",
    "sentence2",
    "sentence",
    "text_b",
    "hypothesis",
    "context",
    "passage",
    "answer",
    "document",
)
FIRSTS = ("text", "text1", "sentence1", "text_a", "premise", "question", "query")


@dataclass(frozen=True)
class Columns:
    """The columns of a file. texts: of a text, or of both of a pair. label: None without one."""

    texts: tuple[int, ...]
    label: int | None

    def text(self, line: str) -> Text | None:
        """Returns the text or the pair of a line; None where a cell is missing or empty."""
        cells = [cell.strip() for cell in line.split("\t")]
        parts = tuple(cells[at] for at in self.texts if at < len(cells) and cells[at])
        if len(parts) < len(self.texts):
            return None
        return parts[0] if len(parts) == 1 else (parts[0], parts[1])

    def number(self, line: str, *, real: bool) -> float | None:
        """Returns the label of a line: its number, with `real` any finite one; None where it is none."""
        cells, at = line.split("\t"), self.label
        cell = cells[at].strip() if at is not None and at < len(cells) else ""
        if not real:
            return int(cell) if cell.isdecimal() else None
        try:
            return number if math.isfinite(number := float(cell)) else None
        except ValueError:
            return None


PAIR = Columns((0, 1), None)  # of a file without a header


def columns_of(header: str) -> Columns:
    """Returns the columns by the names of a header. Raises InputError for no text column or more than two."""
    names = [name.strip().lower() for name in header.split("\t")]
    label = next((at for at, name in enumerate(names) if name in LABELS), None)
    if label is None and len(names) == 2 and names[1] not in SECONDS:
        label = 1
    texts = tuple(at for at, name in enumerate(names) if at != label and name not in COUNTERS)
    if not 1 <= len(texts) <= 2:
        raise InputError(
            f"a header with columns {', '.join(names)[:200]!r}: {len(texts)} of them hold texts",
            hint="one text or two, then label: text, label or text, text2, label",
        )
    return Columns(texts, label)


def is_header(line: str) -> bool:
    """Tells whether a line of a file of pairs names its columns."""
    names = [name.strip().lower() for name in line.split("\t")]
    return len(names) > 1 and set(names) <= {*FIRSTS, *SECONDS, *LABELS, *COUNTERS}


def texts_of(lines: Sequence[str]) -> list[Text]:
    """Returns the texts or pairs of a file with a header; lines without are left out. lines: header first."""
    columns = columns_of(lines[0])
    return [text for line in lines[1:] if (text := columns.text(line)) is not None]


# A file of texts or pairs, one a line; lines that cannot be classified are named by number.

MAX_BYTES = 1 << 28  # of a file of texts


@dataclass(frozen=True)
class Line:
    """A line of a file. number: from 1, as editors count. text: stripped, or both of a pair; empty when
    `problem` says why it cannot be classified. label: its number, of a regression any number; -1 where a file
    has none. first: characters of a context that stand before the window that the text holds."""

    number: int
    text: Text
    problem: str = ""
    label: float = -1
    first: int = 0


def read_lines(path: Path) -> list[Line]:
    """Reads the lines of a file ("-": standard input) that are not blank; one that is not UTF-8 has a
    problem.

    Raises InputError for a file that cannot be read, is huge, or holds no text.
    """
    data = _read(path)
    lines = [_decoded(number, raw) for number, raw in enumerate(data.split(b"\n"), 1) if raw.strip()]
    if not lines:
        raise InputError(f"{path}: holds no text", hint="one text a line")
    return lines


def whole(path: Path, lines: Sequence[Line]) -> Sequence[Line]:
    """Returns the lines of a file of which none may be left out. Raises InputError for the first that has a
    problem."""
    if bad := next((line for line in lines if line.problem), None):
        raise InputError(f"{path}:{bad.number}: {bad.problem}", hint="mend the line, or leave it out")
    return lines


def read_pairs(path: Path) -> list[Line]:
    """Reads a file of two texts a line with a tab between; a first line that names columns says which two.
    Raises InputError as `read_lines`, and for a header of one column of texts."""
    lines = read_lines(path)
    first, columns = str(lines[0].text), PAIR
    if is_header(first):
        columns, lines = columns_of(first), lines[1:]
    if len(columns.texts) != 2:
        raise InputError(f"{path}: one column of texts", hint="--pair takes two, with a tab between them")
    return [_divided(line, columns, "two texts with a tab between") for line in lines]


def read_labelled(path: Path, *, real: bool = False) -> list[Line]:
    """Reads a .tsv file of labelled texts or pairs: a header that names its columns (`columns_of`), then text
    and label number, with tabs between. Malformed lines and those that are not UTF-8 have a problem. real:
    the labels are numbers of a regression.

    Raises InputError for a file that cannot be read, is huge, or holds no text.
    """
    header, *lines = read_lines(path)
    columns = columns_of(str(header.text))
    if columns.label is None:
        raise InputError(f"{path}: its header names no label", hint="text, label or text, text2, label")
    wanted = f"{'a sentence' if len(columns.texts) == 1 else 'two texts'}, a tab and a label number"
    return [_divided(line, columns, wanted, columns.number(str(line.text), real=real)) for line in lines]


def beside(lines: Sequence[Line], file: Path) -> list[Line]:
    """Returns the lines of images with their files' names from the folder of the file that names them."""
    return [x if x.problem else replace(x, text=str(file.parent / str(x.text))) for x in lines]


def in_pairs(texts: Sequence[str]) -> list[Line]:
    """Pairs the texts of a command line, two by two. Raises InputError for an odd number."""
    if len(texts) % 2:
        raise InputError(f"--pair: {len(texts)} texts", hint="two texts for each pair")
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return [Line(number, pair) for number, pair in enumerate(pairs, 1)]


def checked(model: Embedder, lines: Sequence[Line], tokens: int) -> list[Line]:
    """Returns the same lines; those that are too long, or hold no known word, have a problem."""
    return [line if line.problem else _fitted(model, line, tokens) for line in lines]


def admitted(
    model: Embedder, tokens: int, lines: Sequence[Line], file: Path | None
) -> tuple[list[Line], list[Line]]:
    """Returns the lines that fit a plan, and those that are left out. Those of a file are named on stderr;
    one of the command line is an error. Raises InputError, also for a file of none, and typer.Exit where
    nothing of it fits."""
    if not lines:
        raise InputError(f"{file}: holds no text", hint="one text a line")
    if file is None:
        for line in lines:
            if problem := _too_long(model, line.text, tokens):
                raise InputError(problem, hint="shorten it, or plan for more --tokens")
        return list(lines), []
    lines = checked(model, lines, tokens)
    good, bad = ([line for line in lines if bool(line.problem) is wrong] for wrong in (False, True))
    report_problems(file, bad)
    if not good:
        raise typer.Exit(INCOMPLETE)
    return good, bad


def report_problems(path: Path, lines: Sequence[Line]) -> None:
    """Names lines that cannot be classified on stderr."""
    for line in lines:
        err.print(f"[red]{shown(str(path))}:{line.number}:[/red] {shown(line.problem)}", soft_wrap=True)


def _read(path: Path) -> bytes:
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})", hint="one text a line") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: over {MAX_BYTES} bytes", hint="split the file")
    return data


def _decoded(number: int, raw: bytes) -> Line:
    try:
        return Line(number, raw.decode("utf-8-sig").strip())
    except UnicodeDecodeError as error:
        return Line(number, "", f"not UTF-8 ({error.reason} at byte {error.start})")


def _divided(line: Line, columns: Columns, wanted: str, label: float | None = -1) -> Line:
    """Returns a line with the texts of its columns; one without them or a label has a problem."""
    if line.problem:
        return line
    text = columns.text(str(line.text))
    if text is None or label is None:
        return Line(line.number, "", f"not {wanted}")
    return Line(line.number, text, label=label)


def _fitted(model: Embedder, line: Line, tokens: int) -> Line:
    try:
        problem = _too_long(model, line.text, tokens)
        if model.config.image is not None and not problem:
            embed(model, line.text, tokens)  # whether it is an image
    except InputError as error:
        problem = str(error)
    return Line(line.number, "", problem) if problem else line


def _too_long(model: Embedder, text: Text, tokens: int) -> str:
    """Says why a text is too long, or nothing. Raises InputError for a text without a token."""
    count, positions = length_of(model, text), model.config.positions
    limit = f"the plan {tokens}" if tokens <= positions else f"the model {positions} positions"
    return f"the text has {count} tokens, {limit}" if count > min(tokens, positions) else ""
