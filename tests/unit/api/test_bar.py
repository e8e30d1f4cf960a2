"""The bar of Python calls and commands: drawn by default where somebody looks, true in what is left."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

import tacita
from tacita import bar
from tacita.progress import Progress


def test_it_counts_down_between_reports_and_says_when_a_step_takes_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, screen = [100.0], io.StringIO()
    monkeypatch.setattr("tacita.bar.time.monotonic", lambda: now[0])
    console = Console(file=screen, force_terminal=True, width=120)
    with bar.drawn("plan", console) as report:
        report(Progress("calibrate rows", 0, 4, 0.0, 15.0))
        column, task = bar.TimeLeft(), bar.Bar(console=console)
        task.add_task("x", end=115.0)
        seen = []
        for moment in (100.0, 102.0, 114.0, 116.0):
            now[0] = moment
            seen.append(column.render(task.tasks[0]).plain)
    assert seen == ["15 s left", "13 s left", "1.0 s left", "longer than predicted"]
    assert "plan: calibrate rows (1/4)" in screen.getvalue()


def test_without_a_report_of_the_callers_a_terminal_sees_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(bar, "Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    with bar.reporting(bar.draw, "classify") as report:
        report(Progress("evaluate", 0, 4, 0.0, 15.0))
    assert "classify: evaluate (1/4)" in screen.getvalue() and "15 s left" in screen.getvalue()


def test_nothing_is_drawn_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with bar.reporting(bar.draw, "classify") as report:
        report(Progress("evaluate", 0, 4, 0.0, 15.0))
    assert capsys.readouterr() == ("", "")


def test_a_long_call_says_first_what_it_takes_and_none_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(bar, "Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    with bar.reporting(None, "classify") as report:
        report(Progress("evaluate", 0, 4, 0.0, 150.0))
    assert screen.getvalue() == ""
    with bar.reporting(bar.draw, "classify") as report:
        report(Progress("evaluate", 0, 4, 0.0, 150.0))
    first = re.sub("\x1b[^m]*m", "", screen.getvalue()).splitlines()[0]
    assert first == "classify: evaluate first, about 2 min 30 s in all"


def test_a_call_draws_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(bar, "Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    monkeypatch.setattr(bar, "QUIET_SECONDS", 0.0)
    small: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n11", "texts": ["fine", "a dull film"]}
    tacita.classify("fine", backend="plain", progress=None, **small)
    assert screen.getvalue() == ""
    tacita.classify("dull", backend="plain", **small)
    assert "classify: " in screen.getvalue()
