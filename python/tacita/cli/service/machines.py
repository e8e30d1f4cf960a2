"""`tacita serve --https --ray`: the machines that evaluate, and what they will do in an hour."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tacita.cli.console import duration, out, several, shown
from tacita.cluster.connect import LEAST_STORE, Site, require_reachable
from tacita.cluster.predict import costs_of
from tacita.cluster.where import Where
from tacita.errors import InputError
from tacita.placement.predict import file_bytes
from tacita.plans.plan import Plan

if TYPE_CHECKING:
    from tacita.cluster.serving.fleet import RayFleet
    from tacita.service.core.offers import Offers

HOUR = 3600.0
MOVING = 64 << 20  # bytes of pieces of keys that are on their way to a node


def require_machines(where: Where, schemes: Sequence[str], connected: str) -> None:
    """Before plans are made. Raises InputError where no scheme could use them and without Ray, PeerError
    where nobody listens."""
    if all(scheme == connected for scheme in schemes):
        raise InputError(
            f"--ray: {connected} answers over a connection, on this machine", hint="--schemes thor, too"
        )
    require_reachable(where)


@asynccontextmanager
async def machines(
    where: Where | None, offers: Offers, threads: int, memory: float
) -> AsyncIterator[RayFleet | None]:
    """The nodes, for as long as the block lasts; said in a line for each scheme. None without `where`."""
    if where is None:
        yield None
        return
    from tacita.cluster.serving.fleet import RayFleet
    from tacita.cluster.serving.scout import Wish
    from tacita.run.resources import threads as all_threads

    plans = [offered.plan for offered in offers.named.values()]
    files = [plan for plan in plans if isinstance(plan, Plan)]
    wish = Wish(
        where.address or "", where.nodes or 0, where.cores or 0, threads or all_threads(), _store(files)
    )
    fleet = RayFleet(wish, len(files))
    await fleet.open()
    try:
        for plan in plans:
            out.print(_words(plan.scheme, plan, fleet.sites, memory), soft_wrap=True)
        yield fleet
    finally:
        await fleet.close()


def _store(plans: Sequence[Plan]) -> int:
    """Bytes of a node's store: of what is on its way."""
    sizes = [file_bytes(plan) for plan in plans]
    return LEAST_STORE + MOVING + 2 * sum(each["request"] + each["response"] for each in sizes)


def _words(scheme: str, plan: object, sites: Sequence[Site], memory: float) -> str:
    """What the machines are for one scheme."""
    if not isinstance(plan, Plan):
        return f"{shown(scheme)}: on this machine, since it answers over a connection"
    each = costs_of(plan, 0, min(site.cores for site in sites), memory).each
    on = f"{several(len(sites), 'evaluator')} on {several(len({site.node for site in sites}), 'node')}"
    rate = len(sites) * HOUR / each
    return f"{shown(scheme)}: {on}, {duration(each)} a request, {rate:,.0f} requests an hour by prediction"
