"""`tacita estimate --scheme bumblebee`: what a text costs two parties, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from tacita.checkpoint import Checkpoint
from tacita.cli.console import duration, out, reporting, several, shown, size
from tacita.planning.two_party import make_two_party_plan
from tacita.plans.two_party.cost import LINKS, SET_UP, expected_bytes, expected_seconds, expected_transfers
from tacita.plans.two_party.failure import failure_log2
from tacita.plans.two_party.plan import TwoPartyPlan, counted


def run(
    model: Checkpoint, tokens: int, texts: Sequence[str] | None, inputs: int | None, json: Path | None
) -> None:
    """Plans, prints and writes the estimate. Raises CheckpointError for models that the mode does not
    admit."""
    plan = make_two_party_plan(model, tokens, texts)
    found = estimate(plan, inputs or 1)
    with reporting(json, found):
        _show(plan, found)


def estimate(plan: TwoPartyPlan, inputs: int = 1) -> dict[str, Any]:
    """JSON fields. seconds: of a core a party on the measured machine, over no link and over two usual
    ones."""
    seconds = {"loopback": expected_seconds(plan)}
    seconds |= {name: expected_seconds(plan, link) for name, link in LINKS.items()}
    return {
        "model": plan.name,
        "scheme": "bumblebee",
        "tokens": plan.tokens,
        "inputs": inputs,
        "wall_seconds": inputs * seconds["loopback"],
        "seconds_per_input": seconds,
        "bytes_per_input": expected_bytes(plan),
        "setup_bytes": SET_UP,
        "transfers_per_input": expected_transfers(plan),
        "failure_log2": failure_log2(counted(plan).responses),
        "plan_hash": plan.hash,
    }


def _show(plan: TwoPartyPlan, found: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    table.add_row(
        "model",
        f"{shown(plan.name)}, {several(plan.config.layers, 'layer')}, {plan.tokens} tokens, two parties",
    )
    for link, seconds in found["seconds_per_input"].items():
        table.add_row(f"a text, {link}", duration(seconds))
    if found["inputs"] > 1:
        table.add_row(several(found["inputs"], "text"), duration(found["wall_seconds"]))
    table.add_row(
        "sent, both directions", f"{size(found['bytes_per_input'])} a text, {size(found['setup_bytes'])} once"
    )
    table.add_row("correlated transfers", f"{found['transfers_per_input']:,} a text")
    table.add_row("security", "128 bits, both parties following the protocol")
    table.add_row("wrong by chance", f"less than 2^{found['failure_log2']:.1f} a text")
    out.print(table)
