"""A file of texts or pairs, one a line: what can be classified, and by number what cannot."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from tacita.cli.ask.columns import PAIR, Columns, columns_of, is_header
from tacita.cli.console import INCOMPLETE, err, shown
from tacita.errors import InputError
from tacita.front.embed import Text, length_of
from tacita.front.front import Embedder

MAX_BYTES = 1 << 28  # of a file of texts


@dataclass(frozen=True)
class Line:
    """number: from 1, as editors count. text: stripped, or both of a pair; empty when `problem` says why it
    cannot be classified."""

    number: int
    text: Text
    problem: str = ""


def read_lines(path: Path) -> list[Line]:
    """The lines of a file ("-": standard input) that are not blank; one that is not UTF-8 has a problem.

    Raises InputError for a file that cannot be read, is huge, or holds no text.
    """
    data = _read(path)
    lines = [_decoded(number, raw) for number, raw in enumerate(data.split(b"\n"), 1) if raw.strip()]
    if not lines:
        raise InputError(f"{path}: holds no text", hint="one text a line")
    return lines


def read_pairs(path: Path) -> list[Line]:
    """As `read_lines`, of a file of two texts a line with a tab between; a first line that names columns says
    which (`columns`)."""
    lines = read_lines(path)
    first, columns = str(lines[0].text), PAIR
    if is_header(first):
        columns, lines = columns_of(first), lines[1:]
    if len(columns.texts) != 2:
        raise InputError(f"{path}: one column of texts", hint="--pair takes two, with a tab between them")
    return [_paired(line, columns) for line in lines]


def in_pairs(texts: Sequence[str]) -> list[Line]:
    """Texts of a command line, two by two. Raises InputError for an odd number."""
    if len(texts) % 2:
        raise InputError(f"--pair: {len(texts)} texts", hint="two texts for each pair")
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return [Line(number, pair) for number, pair in enumerate(pairs, 1)]


def checked(model: Embedder, lines: Sequence[Line], tokens: int) -> list[Line]:
    """The same lines, those over `tokens` tokens or the model's positions, or without a known word with a
    problem."""
    return [line if line.problem else _fitted(model, line, tokens) for line in lines]


def admitted(
    model: Embedder, tokens: int, lines: Sequence[Line], file: Path | None
) -> tuple[list[Line], bool]:
    """Lines that fit a server's plan, and whether others were left out: of a file those are named, of the
    command line they are an error. Raises InputError, and typer.Exit where nothing of a file is left."""
    if file is None:
        for line in lines:
            if (count := length_of(model, line.text)) > tokens:
                raise InputError(f"the text has {count} tokens, the server takes {tokens}", hint="shorten it")
        return list(lines), False
    lines = checked(model, lines, tokens)
    spoiled = report_problems(file, lines)
    if not (good := [line for line in lines if not line.problem]):
        raise typer.Exit(INCOMPLETE)
    return good, spoiled


def report_problems(path: Path, lines: Sequence[Line]) -> bool:
    """Names each line that cannot be classified on stderr; whether there was one."""
    bad = [line for line in lines if line.problem]
    for line in bad:
        err.print(f"[red]{shown(str(path))}:{line.number}:[/red] {shown(line.problem)}", soft_wrap=True)
    return bool(bad)


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


def _paired(line: Line, columns: Columns) -> Line:
    if line.problem:
        return line
    text = columns.text(str(line.text))
    if text is None:
        return Line(line.number, "", "not two texts with a tab between")
    return Line(line.number, text)


def _fitted(model: Embedder, line: Line, tokens: int) -> Line:
    try:
        found = length_of(model, line.text)
    except InputError as error:
        return Line(line.number, "", str(error))
    positions = model.config.positions
    if found > min(tokens, positions):
        limit = f"the plan {tokens}" if tokens <= positions else f"the model {positions} positions"
        return Line(line.number, "", f"the text has {found} tokens, {limit}")
    return line
