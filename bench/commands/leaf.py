"""`python -m bench leaf`: a feed-forward block LEAF's way and in slots, beside the poster's row."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from bench.leaf import LeafShape, measure_leaf
from tacita.cli.console import out, progress, reporting
from tacita.cli.options import PRESET_DEFAULT, Insecure, Json, Preset
from tacita.plans import engine

Sizes = LeafShape()
BlockTokens = Annotated[int, typer.Option("--tokens", help="Tokens, a power of two.", min=4)]
Hidden = Annotated[int, typer.Option("--hidden", help="Width of the block's input and output.", min=1)]
Inner = Annotated[int, typer.Option("--inner", help="Width between its two products.", min=1)]


def leaf(
    json: Json = None,
    tokens: BlockTokens = Sizes.tokens,
    hidden: Hidden = Sizes.hidden,
    inner: Inner = Sizes.inner,
    preset: Preset = PRESET_DEFAULT,
    allow_insecure: Insecure = False,
) -> None:
    """Time FC1 + GELU and FC1 + GELU + FC2 by coefficients and by slots; some minutes and 9 GB of memory."""
    engine.require_secure(engine.describe(preset), allow_insecure=allow_insecure)
    with progress("bench leaf") as report:
        found = measure_leaf(
            LeafShape(tokens, hidden, inner), preset, allow_insecure=allow_insecure, progress=report
        )
    with reporting(json, found):
        _show(found)


def _show(found: dict[str, Any]) -> None:
    for name, title in (("leaf", "coefficients, refresh through GELU"), ("slots", "slots")):
        route, table = found[name], Table(title, "seconds")
        for stage in route["stages"]:
            table.add_row(stage["name"], f"{stage['seconds']:.2f}")
        table.add_row("FC1 + GELU", f"{route['fc1_gelu_seconds']:.2f}")
        table.add_row("FC1 + GELU + FC2", f"{route['seconds']:.2f}")
        table.add_row("largest error after GELU", f"{route['max_abs_error_gelu']:.5f}")
        table.add_row("largest error after FC2, range 2", f"{route['max_abs_error']:.6f}")
        out.print(table)
    poster = found["poster"]["fc1_gelu_seconds"]
    out.print(f"LEAF's poster, FC1 + GELU of 128 x 768 x 3072: {poster} s, on 15 threads or more (inferred)")
    out.print(
        f"{found['threads']} threads, keys {found['keys_gb']:.2f} GB, peak {found['peak_rss_gb']:.2f} GB, "
        f"{found['simd']}, preset {found['preset']}, {found['security_bits']} bits"
    )
