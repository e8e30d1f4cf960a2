"""`tacita keys list|remove --data DIR`: keys that a server keeps of its clients, for its operator."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from tacita.cli.console import out, reporting, shown, size
from tacita.cli.options import Json
from tacita.errors import InputError
from tacita.extras import needing

if TYPE_CHECKING:
    from tacita.service.ledger import Ledger
    from tacita.service.ledger.rows import KeyRow

FEWEST = 4  # digits that name a key


def list_kept(data: Path, json: Json) -> None:
    """Shows all clients' keys, those that were used last in front."""
    ledger = _ledger(data)
    rows = [(row, _name(ledger, row)) for row in reversed(_rows(ledger))]
    told = [{**vars(row), "client": name} for row, name in rows]
    with reporting(json, {"folder": str(data), "keys": told}):
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


def remove_kept(data: Path, digits: str) -> None:
    """Removes one client's keys, also beside a server that runs. Raises InputError for digits that name none
    or several, and for keys of a request that is not finished."""
    from tacita.service.files import keys as files
    from tacita.service.files.layout import Layout
    from tacita.service.ledger import requests

    ledger = _ledger(data)
    found = [row for row in _rows(ledger) if row.id.startswith(digits)]
    if len(digits) < FEWEST or len(found) != 1:
        raise InputError(
            f"keys: {len(found) or 'no'} keys begin with {digits[:64]!r}", hint=f"{FEWEST} digits or more"
        )
    (row,) = found
    if requests.open_of(ledger, row.client, row.id):
        raise InputError(f"keys: a request of {row.id[:12]} is not finished", hint="wait for it")
    asyncio.run(files.remove(row, ledger, Layout(data)))
    out.print(f"removed: keys {row.id[:12]} of {_name(ledger, row)}", soft_wrap=True)


def _ledger(data: Path) -> Ledger:
    """Raises InputError where no server keeps anything."""
    with needing("service", "keys"):
        from tacita.service.ledger import Ledger
        from tacita.service.ledger.ledger import NAME
    if not (data / NAME).is_file():
        raise InputError(f"keys: {data} is no server's data folder", hint="as of tacita serve --data")
    return Ledger(data)


def _rows(ledger: Ledger) -> list[KeyRow]:
    from tacita.service.ledger import keys

    return keys.every(ledger)


def _name(ledger: Ledger, row: KeyRow) -> str:
    from tacita.service.ledger import tokens

    return tokens.of_id(ledger, row.client).name
