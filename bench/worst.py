"""Stages whose seconds were not as predicted, the worst first.

A ratio is measured over predicted, and 2 is as far off as 1/2. Short stages are left out: two hundredths of a
second where one was predicted are no news.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, log
from typing import Any

LONG = 2.0  # seconds, measured or predicted


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


def _ratio(seconds: float | None, predicted: float) -> float | None:
    """Measured over predicted; None where one of them is missing or zero."""
    return seconds / predicted if seconds and predicted > 0.0 else None


def _off(row: Mapping[str, Any]) -> float:
    """A stage that did not run is infinitely far off."""
    return abs(log(row["ratio"])) if row["ratio"] else inf
