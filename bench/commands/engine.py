"""`python -m bench engine` and `gemm`: the engine's figures beside the yardstick, and a price
table for plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from bench.engine import measure_engine
from bench.gemm import measure_gemm
from tacita.cli.console import out, progress, reporting
from tacita.cli.options import PRESET_DEFAULT, Insecure, Json, Preset
from tacita.plans import engine as door

PriceFile = Annotated[
    Path | None,
    typer.Option("--prices", help="Write a price table for `tacita plan --prices`.", show_default=False),
]


def engine(
    json: Json = None,
    prices: PriceFile = None,
    preset: Preset = PRESET_DEFAULT,
    allow_insecure: Insecure = False,
) -> None:
    """Time transforms, rotations, products and bootstrapping; takes some minutes and the keys' disk space."""
    door.require_secure(door.describe(preset), allow_insecure=allow_insecure)
    with progress("bench") as report:
        figures, table = measure_engine(preset, allow_insecure=allow_insecure, progress=report)
    with reporting(json, figures), reporting(prices, table):
        _show(figures)


def gemm(json: Json = None) -> None:
    """Time matrix products over ciphertexts (128x128, 768x768, 768x3072 at 10 limbs) beside plain ones; some
    minutes."""
    with progress("bench") as report:
        figures = measure_gemm(progress=report)
    table = Table("inputs x outputs", "seconds", "10^9 products/s", "share of plain speed")
    for row in figures["shapes"]:
        cells = f"{row['seconds']:.2f}", f"{row['gproducts']:.1f}", f"{100 * row['share']:.0f} %"
        table.add_row(f"{row['inputs']} x {row['outputs']}", *cells)
    with reporting(json, figures):
        out.print(table)


def _show(figures: dict[str, Any]) -> None:
    y = figures["yardstick_ms"]
    table = Table("operation", "ms", "Y")
    for name in ("yardstick", "ntt", "rotate", "mul_relin", "rescale"):
        table.add_row(name, f"{figures[name + '_ms']:.3f}", f"{figures[name + '_ms'] / y:.2f}")
    b = figures["bootstrap"]
    table.add_row("bootstrap, one thread", f"{1e3 * b['seconds']:.0f}", f"{1e3 * b['seconds'] / y:.0f}")
    out.print(table)
    _show_memory(figures["memory"])
    out.print(f"kernels: {figures['simd']} (TACITA_SIMD=avx512ifma, avx512, avx2 or scalar asks for others)")
    out.print(
        f"bootstrap: {b['bits_average']:.1f} bits average, {b['bits_worst']:.1f} worst, {b['levels_left']} "
        "levels left"
    )
    out.print(
        f"two ciphertexts on {b['all_threads']} threads: {b['two_ciphertexts_ratio_one_thread']:.2f} times "
        "one on one"
    )
    out.print(
        f"keys {b['keys_gb']:.2f} GB, peak {b['peak_rss_gb']:.2f} GB, {figures['simd']}", soft_wrap=True
    )


def _show_memory(memory: dict[str, Any]) -> None:
    table = Table("one thread", "MB moved (counted)", "of a copy's bandwidth")
    for name, row in memory["operations"].items():
        table.add_row(name, f"{row['bytes'] / 1e6:,.0f}", f"{100 * row['share_of_copy']:.0f} %")
    out.print(table)
    out.print(f"a large copy moves {memory['copy_gb_per_second']:.1f} GB/s, bytes read and bytes written")
