"""What a text costs two parties, before anything is sent."""

from __future__ import annotations

import math
from typing import Any

from tacita.plans.link import LINKS, LinkSpeed
from tacita.plans.two_party.cost import SET_UP
from tacita.plans.two_party.failure import failure_log2
from tacita.plans.two_party.plan import TwoPartyPlan, counted


def estimate(plan: TwoPartyPlan, inputs: int = 1, link: LinkSpeed | None = None) -> dict[str, Any]:
    """JSON fields. seconds: of a core a party on the measured machine, over no link, over two usual ones,
    and over `link`, by which all texts are reckoned if it is given.
    """
    links: dict[str, LinkSpeed | None] = {"loopback": None, **LINKS}
    if link is not None and link not in LINKS.values():
        links[told(link)] = link
    cost = counted(plan)
    return {
        "model": plan.name,
        "scheme": plan.scheme,
        "tokens": plan.tokens,
        "inputs": inputs,
        "wall_seconds": inputs * plan.predicted_seconds(link),
        "seconds_per_input": {name: plan.predicted_seconds(over) for name, over in links.items()},
        "bytes_per_input": plan.predicted_bytes(),
        "setup_bytes": SET_UP,
        "transfers_per_input": cost.transfers,
        "failure_log2": failure if math.isfinite(failure := failure_log2(cost.responses)) else None,
        "plan_hash": plan.hash,
    }


def told(link: LinkSpeed) -> str:
    """100 Mbit/s, 20 ms."""
    return f"{link.bits_per_second / 1e6:g} Mbit/s, {1e3 * link.round_trip:g} ms"
