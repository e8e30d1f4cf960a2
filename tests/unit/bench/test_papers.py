"""Every cell of the papers has a figure of ours that stands on its page, with the command, or a reason."""

from __future__ import annotations

import datetime
import re
import shlex
from itertools import chain
from typing import Any

import pytest
import typer

from bench.app import app as benches
from bench.kernels import leaf
from bench.options import ROOT
from bench.tables import pages, papers
from tacita.cli.app import app as product
from tacita.errors import InputError

TABLES, MEASURED = papers.read()
ROWS = [(table, row) for table in TABLES for row in table["rows"]]


def stands(figure: str, page: str) -> bool:
    """Tells whether a figure stands on a page, in one piece and not as a part of another number."""
    page = " ".join(page.split())
    return re.search(rf"(?<![\w.,]){re.escape(figure)}(?![\w]|[.,]\d)", page) is not None


def parse(command: str) -> None:
    """Raises what the command line raises for options that it has not."""
    words = shlex.split(command)
    if words[:3] == ["python", "-m", "pytest"]:
        assert all((ROOT / word).is_file() for word in words[3:]), command
        return
    group, rest = (benches, words[3:]) if words[:3] == ["python", "-m", "bench"] else (product, words[1:])
    commands: Any = typer.main.get_command(group)
    context = typer.Context(commands)
    commands.get_command(context, rest[0]).make_context(rest[0], rest[1:], parent=context)


def test_each_cell_is_measured_or_says_why_not() -> None:
    assert {table["paper"] for table in TABLES} == set(papers.PAPERS)
    for table, row in ROWS:
        place = (table["name"], row["cell"])
        assert len(row["paper"]) == len(table["columns"]) and table["hardware"], place
        if "ours" in row:
            assert row["by"] in MEASURED and "why" not in row, place
        else:
            assert row.get("why") or table.get("why"), place


@pytest.mark.parametrize("key", MEASURED)
def test_a_measurement_has_a_command_that_parses_a_day_and_a_machine(key: str) -> None:
    entry = MEASURED[key]
    parse(entry["command"])
    assert datetime.date(2026, 11, 1) <= entry["recorded"] and entry["machine"]
    assert any(row.get("by") == key for _, row in ROWS), "no cell has it"


def test_commands_that_do_not_exist_are_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("python -m bench one --no-such-option")


def test_figures_of_ours_stand_on_their_pages() -> None:
    for table, row in ROWS:
        if "ours" in row:
            page = (ROOT / MEASURED[row["by"]]["page"]).read_text(encoding="utf-8")
            assert stands(row["ours"], page), (table["name"], row["cell"], row["ours"])


def test_a_part_of_a_number_is_no_figure() -> None:
    assert stands("11.8", "| 11.8 |") and stands("9 s", "takes\n9 s.")
    assert not any(stands(figure, "| 11.84 | 1,834 |") for figure in ("11.8", "1.84", "834"))


def test_parts_add_up_to_the_totals_that_are_printed() -> None:
    """A mistake in copying a cell shows in the sum. ARION's own parts differ from its total by 0.18."""
    for column, total in (("ARION, Tiny", 9.30), ("MOAI, base", 574.6), ("ARION, base", 224.91)):
        kinds = papers.sums("arion", "Table VII,", column)
        assert kinds.pop("total") == total
        assert sum(kinds.values()) == pytest.approx(total, abs=0.2)
    for name, begin in (("thor", "Table 6,"), ("moai", "Table 3,")):
        (table,) = (t for t in TABLES if t["paper"] == name and t["name"].startswith(begin))
        *parts, total = (float(row["paper"][0]) for row in table["rows"])
        assert sum(parts) == pytest.approx(total, abs=0.31), name


def test_the_posters_steps_are_those_that_its_bench_shows() -> None:
    (table,) = (t for t in TABLES if t["name"].startswith("Feed-forward,"))
    figures = [float(row["paper"][0]) for row in table["rows"][:7]]
    assert figures == [*leaf.POSTER.values(), leaf.POSTER_SECONDS]


@pytest.mark.parametrize("name", papers.PAPERS)
def test_a_paper_is_printed_whole(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    papers.paper(name)
    text = capsys.readouterr().out
    rows = list(chain.from_iterable(t["rows"] for t in TABLES if t["paper"] == name))
    assert all(f"| {row['cell']} | {' | '.join(row['paper'])} |" in text for row in rows)
    lines = [line.count(" | ") for line in text.split("\n\n")[2].splitlines() if "---" not in line]
    assert len(set(lines)) == 1, "every row has as many cells as the head"


def test_another_paper_is_refused() -> None:
    with pytest.raises(InputError, match="unknown"):
        papers.paper("nexus")


def test_the_page_has_what_the_command_writes() -> None:
    page = papers.PAGE.read_text(encoding="utf-8")
    assert pages.replaced(page, "papers", "\n".join(papers.summary()) + "\n") == page
