"""`tacita bench engine`: the engine's figures beside the yardstick, and a price table for plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Measure this machine.", no_args_is_help=True)


@app.command("engine")
def engine(json: Annotated[Path | None, typer.Option("--json")] = None) -> None:
    """placeholder until the native module lands"""
