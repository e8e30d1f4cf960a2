"""`tacita keys` lists and removes this user's keys of services; with `--data`, a server's keys of its
clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from tacita.cli.ask.remote import service_of
from tacita.cli.console import err, out, reporting, shown, size
from tacita.cli.options import Json, option, taking
from tacita.cli.service import operator
from tacita.client.http.trust import address_of
from tacita.client.store import About, PlanFolder, ServerFolder, Store, data_folder
from tacita.errors import InputError, TacitaError
from tacita.settings import Settings

app = typer.Typer(help="Keys of services, and whom they belong to.", no_args_is_help=True)
FEWEST = 4  # digits that name a plan
Url = Annotated[str, typer.Argument(metavar="URL", help="Address of the service.", show_default=False)]
Plan = Annotated[
    str,
    typer.Argument(
        metavar="PLAN", help="First digits of the plan's hash, with --data of the key, as listed."
    ),
]
Connect = Annotated[
    str | None,
    option("--connect", metavar="URL", help="Of this service alone, and tell it to remove its half, too."),
]


Data = Annotated[
    Path | None,
    option("--data", help="For the operator: keys in the data folder of a server.", metavar="DIR"),
]


@app.command("list")
def list_keys(json: Json = None, data: Data = None) -> None:
    """Show services that were asked, and the keys that are kept for them."""
    if data is not None:
        operator.list_keys(data, json)
        return
    store = Store(data_folder())
    rows = [row for server in store.servers for row in _rows(server)]
    with reporting(json, {"folder": str(store.root), "servers": rows}):
        table = Table(Column("service", overflow="fold"), "plan", "model", "scheme", "size", "made")
        for row in rows:
            for key in row["keys"] or [None]:
                first = (key["plan"][:12], key["model"], key["scheme"]) if key else ("none", "", "")
                more = (size(key["bytes"]), key["made"]) if key else ("", "")
                table.add_row(shown(row["url"]), *map(shown, first), *map(shown, more))
        out.print(table)


@app.command("remove")
@taking({"network": ("token_file", "trust", "fingerprint"), "run": ("allow_insecure",)})
def remove(plan: Plan, settings: Settings, connect: Connect = None, data: Data = None) -> None:
    """Remove the keys of a plan: what was encrypted with them can then be read by nobody."""
    if data is not None:
        if connect:
            raise InputError("keys remove: --data and --connect", hint="one of the two")
        operator.remove_key(data, plan)
        return
    address = address_of(connect, allow_insecure=settings.run.allow_insecure) if connect else None
    store = Store(data_folder())
    folder, about = _only(plan, [store.server(address)] if address else store.servers)
    folder.remove()
    out.print(f"removed: keys of {shown(about.model)}, plan {shown(about.plan[:12])}", soft_wrap=True)
    if connect:
        network = settings.network.model_copy(update={"connect": connect})
        _remove_there(settings.model_copy(update={"network": network}), about.key)


@app.command("forget")
def forget(url: Url) -> None:
    """Forget by which key a service signs: the next one that it shows is taken."""
    address = address_of(url, allow_insecure=True)
    if not Store(data_folder()).server(address).forget():
        raise InputError(f"{address.url}: no service that was met", hint="tacita keys list")
    out.print(f"forgotten: the signer of {shown(address.url)}", soft_wrap=True)


def _rows(server: ServerFolder) -> list[dict[str, Any]]:
    """Returns the row of one service, none without keys and signer; its folder's name stands for an address
    that was forgotten."""
    record = server.record or {"url": server.path.name, "signer": ""}
    keys = [{**vars(about), "bytes": folder.size} for folder, about in _key_folders(server)]
    return [{**record, "keys": keys}] if keys or record["signer"] else []


def _key_folders(server: ServerFolder) -> list[tuple[PlanFolder, About]]:
    return [(folder, about) for folder in server.plans if (about := folder.about)]


def _only(plan: str, servers: list[ServerFolder]) -> tuple[PlanFolder, About]:
    """Returns the one folder whose plan begins with these digits. Raises InputError for too few digits, and
    for none or several folders."""
    hint = "tacita keys list; --connect URL says at which service"
    if len(plan) < FEWEST:
        raise InputError(f"keys: {len(plan)} digits of a plan", hint=f"at least {FEWEST}")
    matches = [pair for server in servers for pair in _key_folders(server) if pair[1].plan.startswith(plan)]
    if len(matches) != 1:
        raise InputError(f"keys: {len(matches) or 'no'} keys of a plan {plan[:64]!r}", hint=hint)
    return matches[0]


def _remove_there(settings: Settings, key: str) -> None:
    """Removes the server's half of a key; says so where the service cannot be reached, or refuses."""
    try:
        with service_of(settings) as service:
            service.remove_key(key)
    except TacitaError as error:
        err.print(f"[yellow]the service keeps its half:[/yellow] {shown(str(error))}", soft_wrap=True)
    else:
        out.print("removed: its half at the service")
