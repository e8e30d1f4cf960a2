"""`tacita prices`: the machine's own prices, in a minute. From then on plans and estimates use them."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from tacita.cli.console import out, progress, reporting, shown
from tacita.cli.options import Json, taking
from tacita.errors import PlanError
from tacita.plans import engine as door
from tacita.plans.presets import can_bootstrap
from tacita.plans.prices.cost import Prices
from tacita.schemes.measure import measure_prices
from tacita.schemes.prices import describe_prices, keep, measured_prices
from tacita.settings import Settings

LEVEL = 9  # 12 limbs, as in the engine's figures


@taking({"plan": ("preset",), "run": ("allow_insecure",)})
def run(settings: Settings, json: Json = None) -> None:
    """Measure what operations cost here; plan, estimate and scheme auto use it from then on. A minute, 5 GB.

    Kept in the user's cache, for this processor, thread count and release. Anything else that runs beside it
    makes prices too high.
    """
    preset, allow_insecure = settings.plan.preset, settings.run.allow_insecure
    info = door.describe(preset)
    door.require_secure(info, allow_insecure=allow_insecure)
    if not can_bootstrap(info):
        raise PlanError(f"prices: {preset} has no bootstrapping", hint="formulas price its operations")
    with progress("prices") as report:
        table = measure_prices(preset, allow_insecure=allow_insecure, progress=report)
    path = keep(table)
    with reporting(json, table):
        prices = measured_prices(info.log_n)
        assert prices is not None  # just written
        _show(prices, table)
        out.print(f"{describe_prices(prices)}, kept in {shown(str(path))}", soft_wrap=True)


def _show(prices: Prices, table: dict[str, Any]) -> None:
    rows = Table(show_header=False, box=None)
    rows.add_row("machine", f"{shown(prices.machine)}, {prices.threads} threads")
    rows.add_row("yardstick", f"{prices.yardstick_ms:.3f} ms")
    for name, op in (("rotate", "rotate"), ("product", "mul"), ("rescale", "rescale")):
        rows.add_row(f"{name} at 12 limbs", f"{1e3 * prices.seconds(op, LEVEL):.2f} ms")
    for kind in ("complex", "real"):
        alone, each = (prices.bootstrap_ms[kind][how] / 1e3 for how in ("alone", "each"))
        rows.add_row(f"bootstrap, {kind}", f"{alone:.2f} s alone, {each:.2f} s of several")
    rows.add_row("first touch of memory", f"{table['touch_seconds_per_gb']:.2f} s a GB")
    rows.add_row("ciphertexts to disk and back", f"{table['spill_seconds_per_gb']:.2f} s a GB")
    rows.add_row("two parties", f"{prices.pace:.2f} s for one of their estimate")
    out.print(rows)
