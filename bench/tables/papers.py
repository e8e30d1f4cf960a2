"""`python -m bench paper`: the tables and figures of a paper, cell by cell, and what we have beside them.

bench/papers.toml has the cells. A figure of ours stands word for word on the page that its entry names, and
the tests hold the one to the other; a cell without one has a reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bench.options import ROOT, markdown
from bench.tables import pages
from tacita.cli.options import option
from tacita.errors import InputError

FILE, PAGE = ROOT / "bench" / "papers.toml", pages.DOCS / "benchmarks" / "comparisons.md"
PAPERS = {"thor": "THOR", "moai": "MOAI", "arion": "ARION", "leaf": "LEAF", "bumblebee": "BumbleBee"}
Cells = dict[str, Any]


def paper(
    name: Annotated[str, typer.Argument(metavar=f"[{'|'.join(PAPERS)}]")] = "",
    write: Annotated[bool, option("--write", help="Write what is measured into the page instead.")] = False,
) -> None:
    """Print every table of a paper, and ours beside it."""
    if not write and name not in PAPERS:
        raise InputError(f"paper {name!r:.40}: unknown", hint=", ".join(PAPERS))
    if write:
        pages.write(PAGE, "papers", summary())
    else:
        print("\n".join(lines(name)))


def read() -> tuple[list[Cells], dict[str, Cells]]:
    """Returns the tables of all papers and the measurements by their keys."""
    content = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return content["table"], content["measured"]


def lines(name: str) -> Iterator[str]:
    """Yields Markdown lines of a paper's tables."""
    tables, measured = read()
    for table in (each for each in tables if each["paper"] == name):
        yield f"## {PAPERS[name]}, {table['name']}\n"
        yield f"Paper: {table['hardware']}." + (
            f" Differs: {table['differs']}." if "differs" in table else ""
        )
        yield ""
        rows = ([row["cell"], *row["paper"], *_ours(table, row, measured)] for row in table["rows"])
        yield from markdown(["cell", *table["columns"], "ours", "by, or why not"], rows)
        yield ""


def summary() -> Iterator[str]:
    """Yields Markdown lines of the cells of all papers that have a figure of ours."""
    (tables, measured), rows = read(), []
    for table, row in ((each, row) for each in tables for row in each["rows"] if "ours" in row):
        place = f"{PAPERS[table['paper']]}, {table['name'].partition(',')[0]}: {row['cell']}"
        columns = zip(table["columns"], row["paper"], strict=True)
        cells = ", ".join(f"{column} {value}" for column, value in columns if value != "-")
        last = (*_ours(table, row, measured), table.get("differs", ""))
        rows.append((place, cells or "-", table["hardware"], *last))
    yield from markdown(("cell", "paper", "its machine", "ours", "by", "what differs"), rows)


def _ours(table: Cells, row: Cells, measured: dict[str, Cells]) -> tuple[str, str]:
    if "ours" not in row:
        return "-", row.get("why") or table["why"]
    run = measured[row["by"]]
    return re.sub(r" (\| ?)+", "; ", row["ours"]), f"`{run['command']}`, {run['recorded']}, {run['machine']}"


def sums(name: str, begin: str, column: str) -> dict[str, float]:
    """Returns a column of a paper's table, whose name begins so, added up by the kind of work of its rows."""
    (table,) = (each for each in read()[0] if each["paper"] == name and each["name"].startswith(begin))
    place, total = table["columns"].index(column), dict[str, float]()
    for row in table["rows"]:
        value = row["paper"][place]
        total[row["kind"]] = total.get(row["kind"], 0.0) + (0.0 if value == "-" else float(value))
    return {kind: round(value, 2) for kind, value in total.items()}
