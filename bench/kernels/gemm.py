"""Matrix products over ciphertexts beside the machine's double-precision ones: seconds, and the share of
their speed.

One modular product counts as one multiply-add. Residues are split in two halves, so a half of the plain speed
is the most that this method can reach; rescaling the outputs is included in the seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.table import Table

from bench.kernels.keys import keyed
from tacita import compiled
from tacita.cli.console import out, progress, reporting
from tacita.cli.options import Json
from tacita.plans import engine
from tacita.progress import Progress
from tacita.resources import peak_memory_gb, threads
from tacita.schemes.operation_prices import best_ms

PRESET, LIMBS = "n16_leveled", 10
SHAPES = ((128, 128), (768, 768), (768, 3072))  # inputs, outputs
BLOCK = 192  # outputs held at once
DISTINCT = 16  # encryptions; the other inputs are copies in memory of their own
YARDSTICK = (768, 768, 4096)  # rows, inner, columns of the plain product


def measure_gemm(
    shapes: tuple[tuple[int, int], ...] = SHAPES, *, progress: Callable[[Progress], None] = lambda _: None
) -> dict[str, Any]:
    """Rows by shape: seconds for all outputs, products per second, share of the plain product's speed on all
    threads."""
    flops = _plain_speed()
    began, rows = time.monotonic(), []
    evaluator, fresh, residues = _prepare()
    for number, (inputs, outputs) in enumerate(shapes):
        progress(Progress(f"{inputs}x{outputs}", number, len(shapes), time.monotonic() - began, 0.0))
        seconds = _seconds(evaluator, fresh, inputs, outputs)
        speed = inputs * outputs * residues / seconds
        rows.append(
            {
                "inputs": inputs,
                "outputs": outputs,
                "seconds": seconds,
                "gproducts": speed / 1e9,
                "share": speed / flops,
            }
        )
    progress(Progress("done", len(shapes), len(shapes), time.monotonic() - began, 0.0))
    return {
        "limbs": LIMBS,
        "threads": threads(),
        "plain_gproducts": flops / 1e9,
        "shapes": rows,
        "peak_rss_gb": peak_memory_gb(),
    }


def _plain_speed() -> float:
    """Multiply-adds a second of a double-precision matrix product with all threads."""
    m, k, n = YARDSTICK
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    return m * k * n / (best_ms(lambda: a @ b, 5) / 1e3)


def _prepare() -> tuple[Any, list[Any], int]:
    """(evaluator, a few ciphertexts, residues of one)."""
    native = compiled.native
    with engine.translated():
        params = native.Parameters.preset(PRESET)
        be, secret = keyed(params, threads=threads())
        rng = np.random.default_rng(1)
        slots = (rng.uniform(-1.0, 1.0, params.slots).astype(np.complex128) for _ in range(DISTINCT))
        fresh = [native.encrypt(secret, values, LIMBS - 1) for values in slots]
    return be._native, fresh, 2 * LIMBS * 2 * params.slots


def _seconds(evaluator: Any, fresh: list[Any], inputs: int, outputs: int) -> float:
    """All outputs, a block at a time; the inputs are in memory."""
    xs = [evaluator.neg(fresh[i % DISTINCT]) for i in range(inputs)]
    weights = np.random.default_rng(2).uniform(-1.0, 1.0, (outputs, inputs, 1))
    evaluator.matmul(xs, weights[:8], None)  # touches the memory of results first
    began = time.monotonic()
    for first in range(0, outputs, BLOCK):
        evaluator.matmul(xs, weights[first : first + BLOCK], None)
    return time.monotonic() - began


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
