"""`python -m bench service`: a service under load, on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacita.cli.console import out, reporting
from tacita.cli.options import Json
from tacita.extras import needing

TEXTS = (
    ("a film of quiet beauty", "positive"),
    ("a waste of time", "negative"),
    ("warm , funny and moving", "positive"),
    ("dull from the first minute", "negative"),
)


def service(
    json: Json = None,
    clients: Annotated[int, typer.Option("--clients", help="At once, by bumblebee.", min=1)] = 50,
    callers: Annotated[int, typer.Option("--callers", help="That mean harm.", min=1)] = 200,
    asked: Annotated[
        int, typer.Option("--asked", help="Texts of an honest client, without them and beside them.", min=1)
    ] = 12,
    waiting: Annotated[
        int, typer.Option("--waiting", help="Requests of three clients, in one queue.", min=6)
    ] = 20,
    thor: Annotated[
        bool, typer.Option("--thor/--no-thor", help="Also requests at full security: minutes and 8 GB.")
    ] = True,
) -> None:
    """Many clients at once, turns in a queue, hostile callers, and what HTTP adds to a request."""
    with needing("service", "bench service"):
        from bench.runs.service.load import measure_service
    texts, labels = zip(*TEXTS, strict=True)
    sizes = {"clients": clients, "callers": callers, "asked": asked, "waiting": waiting}
    found = measure_service(texts, labels, **sizes, thor=thor, told=out.print)
    with reporting(json, found):
        for part, figures in found.items():
            _show(part, figures)


def _show(part: str, figures: dict[str, Any]) -> None:
    out.print(f"[bold]{part}[/bold]")
    for name, value in figures.items():
        shown = f"{value:.3g}" if isinstance(value, float) else str(value)
        out.print(f"  {name.replace('_', ' ')}: {shown}", soft_wrap=True)
