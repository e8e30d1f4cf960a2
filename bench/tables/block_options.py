"""What each option of a block takes in each packing: levels, key switches and products beside the same little
model without it, counted on `sim`. docs/decisions/0030 has the table.

    python -m bench block-options
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from bench.options import markdown
from tacita.blocks.base import Relative, Rotary
from tacita.layouts.columns import BatchShape
from tacita.layouts.rows import RowsShape
from tacita.packings.columns.lowering import ColumnLowering
from tacita.packings.conformance import Case, World, specs_of, world_of
from tacita.packings.conformance_cases import NORMS, RMS, Little, norms_before
from tacita.packings.lowering import lower
from tacita.packings.multidiagonal.lowering import DiagonalLowering
from tacita.packings.rows.lowering import RowLowering
from tacita.packings.specs import CircuitSpecs
from tacita.slots.sim import SimBackend

TOKENS, LEVELS = 32, 400
SWITCHES = ("rotate", "rotate_hoisted", "rotate_shared", "conjugate", "mul", "relin")  # with a key
ROWS = 1024
BATCH = 256
BUILDS: dict[str, tuple[int, Callable[..., Any]]] = {
    "rows": (ROWS, lambda g, w, s: RowLowering(g, w, s, RowsShape(ROWS, TOKENS))),
    "multidiagonal": (ROWS, lambda g, w, s: DiagonalLowering(g, w, s, ROWS, TOKENS)),
    "columns": (BATCH, lambda g, w, s: ColumnLowering(g, w, s, BatchShape(BATCH, TOKENS))),
}
PER_HEAD = ("attention.queries", "attention.keys")
PLAIN = Little(16, 2, "silu")
OPTIONS: dict[str, Little] = {
    "no mean": replace(PLAIN, normal=RMS),
    "gate": replace(PLAIN, gated=True),
    "rotary": replace(PLAIN, placed={"rotary": Rotary(100.0)}),
    "relative": replace(PLAIN, placed={"relative": Relative("table", 8, 4)}),
    "normed": replace(PLAIN, placed={"normed": NORMS}),
    "reach": replace(PLAIN, placed={"reach": (3, 2)}),
}


def block_options() -> None:
    """What each option of a block takes in each packing, counted on sim: the table of decision 30."""
    names = ("packing", "rows", "option", "levels", "key switches", "by plaintexts", "of ciphertexts")
    print(
        *markdown(names, (row for packing in BUILDS for rows in (None, 1) for row in _rows(packing, rows))),
        sep="\n",
    )


def _rows(packing: str, rows: int | None) -> Iterator[tuple[object, ...]]:
    before, asked = _measured(packing, PLAIN, rows), "first" if rows else "all"
    yield packing, asked, "(none)", *before
    for name, model in OPTIONS.items():
        found = _measured(packing, model, rows)
        yield packing, asked, name, *(f"{a - b:+d}" for a, b in zip(found, before, strict=True))


def _measured(packing: str, model: Little, rows: int | None) -> list[int]:
    """Levels of the deepest way, key switches, products by plaintexts and of ciphertexts."""
    slots, build = BUILDS[packing]
    world, specs = _world(model, rows), _specs(model, rows)
    circuit = lower(world.graph, build(world.graph, world.weights, specs), specs)
    be = SimBackend(slots, LEVELS)
    live: dict[str, Any] = {
        n: tuple(be.input() for _ in range(count)) for n, count in circuit.request.counts.items()
    }
    for stage in circuit.stages:
        live = stage.run(be, dict(live))
    found: Counter[str] = Counter()
    for (operation, *_), count in be.counts.items():
        found[operation] += count
    switches = sum(found[name] for name in SWITCHES)
    depth = LEVELS - min(be.level(ct) for ct in live["answer"])
    return [
        depth,
        switches,
        found["mul_plain"] + found["mul_lifted"],
        found["mul"] + found["tensor"] + found["outer"],
    ]


def _world(model: Little, rows: int | None) -> World:
    case = Case("option", partial(norms_before, m=model, rows=rows, head="classify", final=True), 16, 2)
    return world_of(case, TOKENS)


def _specs(model: Little, rows: int | None) -> CircuitSpecs:
    """Takes those of the model without an option: other intervals would mean other polynomials, not the
    option's cost."""
    found = specs_of(_world(PLAIN, rows))
    inner = {name: node for name, node in specs_of(_world(model, rows)).nodes.items() if name in PER_HEAD}
    found = replace(found, nodes={**found.nodes, **inner})
    gate = replace(found.function("feed_forward"), factor=1.0, product=1.0)
    return replace(found, nodes={**found.nodes, "feed_forward": gate}) if model.gated else found
