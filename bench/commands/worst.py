"""The stages of a bench that were furthest from their estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from bench.worst import LONG
from tacita.cli.console import out, shown

SHOWN = 6


def show_worst(figures: dict[str, Any]) -> None:
    """Shows the first of the stages that `bench.worst` lists of an encrypted run; of another one nothing."""
    worst: Sequence[dict[str, Any]] = figures["worst"]
    if not figures["encrypted"] or not worst:
        return
    table = Table(f"furthest off, of {LONG:g} s or more", "seconds", "predicted", "ratio")
    for row in worst[:SHOWN]:
        taken, far = ("-" if row[name] is None else f"{row[name]:.2f}" for name in ("seconds", "ratio"))
        table.add_row(shown(row["name"]), taken, f"{row['predicted_seconds']:.2f}", far)
    out.print(table)
