"""Serves a service's operator: `tacita keys list|remove --data DIR` manages clients' keys, and `tacita serve
--ray` opens the machines that evaluate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from tacita.checkpoint import Checkpoint
from tacita.cli.console import duration, out, reporting, several, shown, size
from tacita.cli.options import Json
from tacita.errors import InputError
from tacita.extras import needing
from tacita.plans.plan import Plan
from tacita.server.machines.cluster import Site, Where, require_reachable
from tacita.server.machines.costs import costs_of, store_bytes

if TYPE_CHECKING:
    from tacita.server.core.offers import Offers
    from tacita.server.machines.node_set import RayNodeSet
    from tacita.server.store import Ledger
    from tacita.server.store.tables import KeyRow


FEWEST = 4  # digits that name a key


def list_keys(data: Path, json: Json) -> None:
    """Shows all clients' keys, those that were used last in front."""
    ledger = _ledger(data)
    rows = [(row, _name(ledger, row)) for row in reversed(_rows(ledger))]
    fields = [{**vars(row), "client": name} for row, name in rows]
    with reporting(json, {"folder": str(data), "keys": fields}):
        table = Table("client", "key", "model", "scheme", "size", "last used (UTC)", "")
        for row, name in rows:
            used = datetime.fromtimestamp(row.used, UTC).strftime("%Y-%m-%d %H:%M")
            table.add_row(
                name,
                row.id[:12],
                shown(row.model),
                row.scheme,
                size(row.received),
                used,
                "" if row.complete else f"of {size(row.bytes)}",
            )
        out.print(table)


def remove_key(data: Path, digits: str) -> None:
    """Removes one client's keys, also beside a server that runs. Raises InputError for digits that name none
    or several, and for keys of a request that is not finished."""
    from tacita.server.store import key_files as files
    from tacita.server.store import requests
    from tacita.server.store.bodies import Layout

    ledger = _ledger(data)
    matches = [row for row in _rows(ledger) if row.id.startswith(digits)]
    if len(digits) < FEWEST or len(matches) != 1:
        raise InputError(
            f"keys: {len(matches) or 'no'} keys begin with {digits[:64]!r}", hint=f"{FEWEST} digits or more"
        )
    (row,) = matches
    if requests.open_of(ledger, row.client, row.id):
        raise InputError(f"keys: a request of {row.id[:12]} is not finished", hint="wait for it")
    asyncio.run(files.remove(row, ledger, Layout(data)))
    out.print(f"removed: keys {row.id[:12]} of {_name(ledger, row)}", soft_wrap=True)


def _ledger(data: Path) -> Ledger:
    """Opens the ledger of a server's data folder. Raises InputError for a folder without one."""
    with needing("service", "keys"):
        from tacita.server.store import Ledger
        from tacita.server.store.ledger import NAME
    if not (data / NAME).is_file():
        raise InputError(f"keys: {data} is no server's data folder", hint="as of tacita serve --data")
    return Ledger(data)


def _rows(ledger: Ledger) -> list[KeyRow]:
    from tacita.server.store import keys

    return keys.every(ledger)


def _name(ledger: Ledger, row: KeyRow) -> str:
    from tacita.server.store import tokens

    return tokens.of_id(ledger, row.client).name


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
    from tacita.server.machines.model import write_model
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
