"""`python -m bench part-estimates`: products, softmaxes, norms and layers that papers time alone, counted on
`sim` and priced by the shipped table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Annotated, Any

from bench.options import PRESET_DEFAULT, emit_rows, shipped_prices
from bench.tables import layers, parts
from tacita.cli.console import write_report
from tacita.cli.options import Json, option
from tacita.errors import InputError
from tacita.layouts.columns import BatchShape
from tacita.layouts.multidiagonal import Features
from tacita.plans.engine import describe

THOR = -44.19, 50.25  # the scores of its Table 5
LENGTHS = 32, 64, 128, 256
KINDS = "levels", "heads", "softmax", "columns", "norm", "layers", "operations"


def part_estimates(
    only: Annotated[str, option("--only", metavar=f"[{'|'.join(KINDS)}]", help="Parts of one kind.")] = "",
    json: Json = None,
) -> None:
    """Count the operations of parts that papers time alone, and estimate their seconds."""
    if only and only not in KINDS:
        raise InputError(f"bench part-estimates: no parts {only!r:.40}", hint=", ".join(KINDS))
    prices, ring = shipped_prices(), describe(PRESET_DEFAULT)
    layout, slots, top = Features.hidden(ring.slots, 128, 12, 64), ring.slots, ring.max_level
    kinds: dict[str, Callable[[], Iterable[parts.Row]]] = {
        "levels": lambda: parts.by_level(layout, top, prices),
        "heads": lambda: parts.of_heads(layout, top, prices),
        "softmax": lambda: [parts.softmax_of_rows(slots, 128, THOR, top, prices)],
        "columns": lambda: chain.from_iterable(
            parts.attention_in_columns(BatchShape(slots, n), 64, prices) for n in LENGTHS
        ),
        "norm": lambda: [parts.norm_in_columns(BatchShape(slots, 128), 768, prices)],
        "layers": lambda: layers.of_papers(slots, prices),
        "operations": lambda: parts.operations(prices),
    }
    rows: Any = []
    for row in chain.from_iterable(kinds[kind]() for kind in KINDS if only in ("", kind)):
        rows.append(row)
        emit_rows([row])
    write_report(json, rows)
