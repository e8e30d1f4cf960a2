"""`tacita keys` lists and removes this user's keys of services; with `--data`, a server's keys of its
clients."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from tacita.cli.ask.remote import service_of
from tacita.cli.console import INCOMPLETE, err, out, reporting, say, shown, size
from tacita.cli.options import Json, option, taking
from tacita.cli.service.token import ledger_of
from tacita.client.http.trust import address_of
from tacita.client.store import About, PlanFolder, ServerFolder, Store, data_folder
from tacita.errors import InputError, TacitaError
from tacita.extras import needing
from tacita.settings import Settings

if TYPE_CHECKING:
    from tacita.server.store.ledger import Ledger
    from tacita.server.store.tables import KeyRow

app = typer.Typer(help="Keys of services, and whom they belong to.", no_args_is_help=True)
FEWEST = 4  # digits that name a plan, or a key
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
        _list_of_clients(data, json)
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
        _remove_of_client(data, plan)
        return
    address = address_of(connect, allow_insecure=settings.run.allow_insecure) if connect else None
    store = Store(data_folder())
    folder, about = _only(plan, [store.server(address)] if address else store.servers)
    folder.remove()
    say(f"removed: keys of {shown(about.model)}, plan {shown(about.plan[:12])}")
    if connect:
        network = settings.network.model_copy(update={"connect": connect})
        _remove_there(settings.model_copy(update={"network": network}), about.key)


@app.command("forget")
def forget(url: Url) -> None:
    """Forget by which key a service signs: the next one that it shows is taken."""
    address = address_of(url, allow_insecure=True)
    if not Store(data_folder()).server(address).forget():
        raise InputError(f"{address.url}: no service that was met", hint="tacita keys list")
    say(f"forgotten: the signer of {shown(address.url)}")


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
    """Removes the server's half of a key. Where the service cannot be reached, or refuses, says so and raises
    typer.Exit."""
    try:
        with service_of(settings) as service:
            service.remove_key(key)
    except TacitaError as error:
        err.print(f"[yellow]the service keeps its half:[/yellow] {shown(str(error))}", soft_wrap=True)
        raise typer.Exit(INCOMPLETE) from None
    out.print("removed: its half at the service")


# `--data`: a server's keys of its clients, for its operator.


def _list_of_clients(data: Path, json: Json) -> None:
    """Shows all clients' keys, those that were used last in front."""
    _, rows = _client_keys(data)
    fields = [{**vars(row), "client": name} for row, name in reversed(rows)]
    with reporting(json, {"folder": str(data), "keys": fields}):
        table = Table("client", "key", "model", "scheme", "size", "last used (UTC)", "")
        for row, name in reversed(rows):
            used = datetime.fromtimestamp(row.used, UTC).strftime("%Y-%m-%d %H:%M")
            whole = "" if row.complete else f"of {size(row.bytes)}"
            table.add_row(name, row.id[:12], shown(row.model), row.scheme, size(row.received), used, whole)
        out.print(table)


def _remove_of_client(data: Path, digits: str) -> None:
    """Removes one client's keys, also beside a server that runs. Raises InputError for digits that name none
    or several, and for keys of a request that is not finished."""
    ledger, rows = _client_keys(data)
    from tacita.server.store import keys, requests
    from tacita.server.store.bodies import Layout

    matches = [each for each in rows if each[0].id.startswith(digits)]
    if len(digits) < FEWEST or len(matches) != 1:
        raise InputError(
            f"keys: {len(matches) or 'no'} keys begin with {digits[:64]!r}", hint=f"{FEWEST} digits or more"
        )
    ((row, name),) = matches
    if requests.open_of(ledger, row.client, row.id):
        raise InputError(f"keys: a request of {row.id[:12]} is not finished", hint="wait for it")
    asyncio.run(keys.remove(row, ledger, Layout(data)))
    say(f"removed: keys {row.id[:12]} of {name}")


def _client_keys(data: Path) -> tuple[Ledger, list[tuple[KeyRow, str]]]:
    """Returns the ledger of a server's data folder, and all keys in it, each with its client's name. Raises
    InputError for a folder without a ledger."""
    with needing("service", "keys"):
        from tacita.server.store import keys, tokens
    ledger = ledger_of(data)
    return ledger, [(row, tokens.of_id(ledger, row.client).name) for row in keys.every(ledger)]
