"""A case's figures from what its two parties reported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench.runs.two_party.cost import Cost, Run
from bench.runs.two_party.links import LAN, LOOPBACK, WAN, Link

Figures = dict[str, Any]
ROLES = ("client", "server")


def case_figures(reports: Mapping[str, Mapping[str, Any]], judged: Mapping[str, Any], link: Link) -> Figures:
    """The JSON of one case. wall_seconds: of the slower party; megabytes: what both sent, framing included.

    wall_seconds, cpu_seconds, megabytes and rounds contain the correlated transfers that the run used, at the
    average price of those made; `as_measured` has the run as it happened, `without_cots` neither (see
    cost.py).
    """
    runs = {role: Run.from_dict(reports[role]["run"]) for role in ROLES}
    figures = _combined({role: run.amortised for role, run in runs.items()})
    setups = [reports[role]["setup"] for role in ROLES]
    return {
        "link": link.name,
        **figures,
        **judged,
        "peak_rss_gb": [reports[role]["peak_rss_gb"] for role in ROLES],
        "setup_seconds": max(setup["seconds"] for setup in setups),
        "setup_cpu_seconds": [setup["cpu_seconds"] for setup in setups],
        "setup_megabytes": sum(setup["sent"] for setup in setups) / 1e6,
        "as_measured": _combined({role: run.whole for role, run in runs.items()}),
        "without_cots": _combined({role: run.bare for role, run in runs.items()}),
        "cots": _cots(runs),
        **computed(figures, link),
        "operations": operation_rows(runs),
        **reports["client"]["extra"],
    }


def operation_rows(runs: Mapping[str, Run]) -> list[Figures]:
    """Calls, seconds, bytes and rounds by operation, in the client's view; server_cpu_seconds beside its own.
    Largest first."""
    rows = []
    for path, cost in runs["client"].operations.items():
        other = runs["server"].operations.get(path, Cost())
        rows.append(
            {
                "operation": path,
                "calls": round(cost.calls),
                "seconds": cost.wall,
                "client_cpu_seconds": cost.cpu,
                "server_cpu_seconds": other.cpu,
                "sent": round(cost.sent),
                "received": round(cost.received),
                "rounds": round(cost.rounds),
            }
        )
    return sorted(rows, key=lambda row: -float(str(row["seconds"])))


def _combined(costs: Mapping[str, Cost]) -> Figures:
    parties = [costs[role] for role in ROLES]
    return {
        "wall_seconds": max(cost.wall for cost in parties),
        "cpu_seconds": [cost.cpu for cost in parties],
        "megabytes": sum(cost.sent for cost in parties) / 1e6,
        "rounds": max(math.ceil(round(cost.rounds, 6)) for cost in parties),
    }


def _cots(runs: Mapping[str, Run]) -> Figures:
    one = {role: run.per_cot for role, run in runs.items()}
    return {
        "used": runs["client"].used,
        "made_in_run": runs["client"].refill,
        "made_in_session": runs["client"].made,
        "bytes_per_cot": sum(cost.sent for cost in one.values()),
        "cpu_seconds_per_million": [1e6 * one[role].cpu for role in ROLES],
    }


def computed(figures: Figures, link: Link) -> Figures:
    """wall + bytes / bandwidth + rounds * round trip; from a loopback run only."""
    if link != LOOPBACK:
        return {}
    count = 1e6 * figures["megabytes"]
    return {
        f"{other.name}_seconds": other.seconds(figures["wall_seconds"], count, figures["rounds"])
        for other in (LAN, WAN)
    }
