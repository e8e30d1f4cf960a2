"""Stages of a run beside their prediction, and those whose seconds were not as predicted, the worst first.

A ratio is measured over predicted, and 2 is as far off as 1/2. Short stages are left out: two hundredths of a
second where one was predicted are no news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, log
from typing import Any

from rich.table import Table

from tacita.cli.console import out, shown
from tacita.evaluate.session import MEMORY_GB
from tacita.plans.plan import Plan
from tacita.progress import Progress, silent
from tacita.schemes.ciphertexts import stage_estimates

ROTATIONS = ("rotate", "rotate_hoisted", "rotate_shared", "conjugate")
RELINEARISATIONS = ("mul", "relin")
LONG = 2.0  # seconds, measured or predicted
SHOWN = 6
Numbers = dict[str, float]


class StageClock:
    """Progress callback of any number of runs: seconds of each stage, bootstraps included, added up over the
    runs. seconds: of stages that an earlier sitting of the same run had finished, to which it adds; a stage
    that runs again is counted anew. save: called after each stage. bar: is told what this is told."""

    def __init__(
        self,
        seconds: Numbers | None = None,
        save: Callable[[], None] = lambda: None,
        bar: Callable[[Progress], None] = silent,
    ) -> None:
        self.seconds, self._save, self._bar = {} if seconds is None else seconds, save, bar
        self._earlier = set(self.seconds)
        self._began: tuple[str, float] | None = None

    def __call__(self, now: Progress) -> None:
        if self._began:
            name, start = self._began
            self.seconds[name] = self.seconds.get(name, 0.0) + now.seconds - start
            self._save()
        self._began = None if now.index == now.total else (now.stage, now.seconds)
        if now.stage in self._earlier:
            self._earlier.remove(now.stage)
            del self.seconds[now.stage]
        self._bar(now)

    @property
    def earlier(self) -> float:
        """Adds up the seconds of stages that this sitting did not run."""
        return sum(self.seconds[name] for name in self._earlier)


def stage_rows(
    plan: Plan, seconds: Mapping[str, float], requests: int, memory: float = MEMORY_GB, *, warm: bool = False
) -> list[dict[str, Any]]:
    """One row a stage: seconds of one request (the mean over `requests`; None for one that did not run), and
    what the estimate says within this limit of memory. warm: in a process whose memory an earlier
    request has touched."""
    rows = []
    for stage in stage_estimates(plan, memory):
        taken = seconds[stage.name] / requests if stage.name in seconds else None
        touching = 0.0 if warm else stage.touch_seconds / requests
        predicted = stage.seconds + stage.spill_seconds + touching
        rows.append({"name": stage.name, "seconds": taken, "predicted_seconds": predicted})
    return rows


def by_worst(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a report (name, seconds, predicted_seconds) that took LONG, or should have, each with its
    ratio, by how far off they are."""
    kept = [row for row in rows if max(row["seconds"] or 0.0, row["predicted_seconds"]) >= LONG]
    found = [{**row, "ratio": _ratio(row["seconds"], row["predicted_seconds"])} for row in kept]
    return sorted(found, key=_off, reverse=True)


def compared(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of a report: the long stages by worst ratio, and the ratio of the sums of all."""
    measured = sum(row["seconds"] or 0.0 for row in rows)
    predicted = sum(row["predicted_seconds"] for row in rows)
    return {"worst": by_worst(rows), "ratio": _ratio(measured, predicted)}


def show_stages(title: str, figures: Mapping[str, Any]) -> None:
    """Shows all stages of a report, and of an encrypted run the first of the worst."""
    _show([title, "seconds", "predicted"], figures["stages"], ("seconds", "predicted_seconds"))
    if figures["encrypted"] and figures["worst"]:
        heads = [f"furthest off, of {LONG:g} s or more", "seconds", "predicted", "ratio"]
        _show(heads, figures["worst"][:SHOWN], ("seconds", "predicted_seconds", "ratio"))


def _show(heads: Sequence[str], rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> None:
    table = Table(*heads)
    for row in rows:
        cells = ("-" if row[name] is None else f"{row[name]:.2f}" for name in names)
        table.add_row(shown(row["name"]), *cells)
    out.print(table)


def _ratio(seconds: float | None, predicted: float) -> float | None:
    """Measured over predicted; None where one of them is missing or zero."""
    return seconds / predicted if seconds and predicted > 0.0 else None


def _off(row: Mapping[str, Any]) -> float:
    """A stage that did not run is infinitely far off."""
    return abs(log(row["ratio"])) if row["ratio"] else inf
