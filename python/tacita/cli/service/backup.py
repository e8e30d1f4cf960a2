"""`tacita backup` copies a server's folders while it runs; `tacita restore` makes them anew elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacita.cli.console import progress, reporting, say, several, shown, size
from tacita.cli.options import Json, taking
from tacita.errors import InputError
from tacita.extras import needing
from tacita.settings import Settings

if TYPE_CHECKING:
    from tacita.server.core.backup import Copy

Folder = Annotated[Path, typer.Argument(help="Of the backup.", show_default=False)]
LINE = {"service": ("data", "new_certificate")}
WithKeys = Annotated[
    bool, typer.Option("--keys/--no-keys", help="Also clients' keys, which they could send again.")
]


@taking(LINE)
def back_up(folder: Folder, settings: Settings, keys: WithKeys = True, json: Json = None) -> None:
    """Copy a server's data folder and certificate into a new folder, also while it serves."""
    with needing("service", "backup"):
        from tacita.server.core import backup
    service, data = settings.service, _data(settings, "backup")
    tls = service.new_certificate
    with progress("backup") as report:
        copy = backup.back_up(data, folder, tls, report, with_keys=keys)
    held = f"{several(copy.keys, 'key set')}, {several(copy.requests, 'request')}"
    _show(copy, f"{shown(str(folder))} holds the ledger, {held}:", json)
    if copy.left_out:
        say(f"left out: {several(copy.left_out, 'row')} whose file was gone, not whole, or damaged")
    say("not in it: model folders, tacita.toml, resume points, certificates of your own")


@taking(LINE)
def restore(folder: Folder, settings: Settings, json: Json = None) -> None:
    """Make a server's data folder and certificate from a backup, each file checked."""
    with needing("service", "restore"):
        from tacita.server.core import backup
    data, tls = _data(settings, "restore"), settings.service.new_certificate
    with progress("restore") as report:
        copy = backup.restore(folder, data, tls, report)
    _show(copy, f"{shown(str(data))} is restored, every sum is right:", json)


def _data(settings: Settings, what: str) -> Path:
    if settings.service.data is None:
        raise InputError(f"{what}: the server's data folder is not named", hint="--data FOLDER")
    return settings.service.data


def _show(copy: Copy, words: str, json: Path | None) -> None:
    held = {"keys": copy.keys, "requests": copy.requests, "left_out": copy.left_out}
    with reporting(json, {**held, "files": len(copy.sums), "bytes": copy.bytes}):
        say(f"{words} {several(len(copy.sums), 'file')}, {size(copy.bytes)}")
