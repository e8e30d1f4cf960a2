"""Opens the machines of a Ray cluster, on which `tacita serve` evaluates (`[ray]`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tacita.checkpoint import Checkpoint
from tacita.cli.console import duration, out, several, shown
from tacita.errors import InputError
from tacita.plans.plan import Plan
from tacita.server.machines.cluster import Site, Where, require_reachable
from tacita.server.machines.costs import costs_of, store_bytes

if TYPE_CHECKING:
    from tacita.server.core.offers import Offers
    from tacita.server.machines.node_set import RayNodeSet


# `tacita serve --https --ray`: the machines that evaluate, and what they will do in an hour.

HOUR = 3600.0


def require_machines(where: Where, schemes: Sequence[str], connected: str) -> None:
    """Checks the machines before plans are made. Raises InputError where no scheme could use them and without
    Ray, PeerError where nobody listens."""
    if all(scheme == connected for scheme in schemes):
        raise InputError(
            f"--ray: {connected} answers over a connection, on this machine", hint="--schemes thor, too"
        )
    require_reachable(where)


@asynccontextmanager
async def machines(
    where: Where | None, offers: Offers, model: Checkpoint, threads: int, memory: float
) -> AsyncIterator[RayNodeSet | None]:
    """Opens the nodes for as long as the block lasts, and describes them for each scheme. model: the one that
    they evaluate. Yields None without `where`."""
    if where is None:
        yield None
        return
    from tacita.server.machines.node import write_model
    from tacita.server.machines.node_set import RayNodeSet
    from tacita.server.machines.watcher import ClusterRequest

    plans = [offered.plan for offered in offers.named.values()]
    files = [offered for offered in offers.named.values() if isinstance(offered.plan, Plan)]
    for offered in files:
        write_model(model, offered.folder)
    store = store_bytes([offered.files for offered in files], where.nodes or 1)
    nodes = RayNodeSet(ClusterRequest(where, threads, store), len(files))
    await nodes.open()
    try:
        for plan in plans:
            out.print(_words(plan.scheme, plan, nodes.sites, memory), soft_wrap=True)
        yield nodes
    finally:
        await nodes.close()


def _words(scheme: str, plan: object, sites: Sequence[Site], memory: float) -> str:
    """Describes what the machines do for one scheme."""
    if not isinstance(plan, Plan):
        return f"{shown(scheme)}: on this machine, since it answers over a connection"
    each = costs_of(plan, 0, min(site.cores for site in sites), memory).each
    on = f"{several(len(sites), 'evaluator')} on {several(len({site.node for site in sites}), 'node')}"
    rate = len(sites) * HOUR / each
    return f"{shown(scheme)}: {on}, {duration(each)} a request, {rate:,.0f} requests an hour by prediction"
