"""`tacita backup` copies a server's folders while it runs; `tacita restore` makes them anew elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacita.cli.console import progress, reporting, say, several, shown, size, warn
from tacita.cli.options import Json, taking
from tacita.errors import InputError
from tacita.extras import needing
from tacita.progress import Progress
from tacita.settings import Settings

if TYPE_CHECKING:
    from tacita.server.core.backup import Contents

Folder = Annotated[Path, typer.Argument(help="Of the backup.", show_default=False)]
LINE = {"service": ("data", "new_certificate")}
FILE = {"service": ("certificate", "key")}
WithKeys = Annotated[
    bool, typer.Option("--keys/--no-keys", help="Also clients' keys, which they could send again.")
]


@taking(LINE, FILE)
def back_up(folder: Folder, settings: Settings, keys: WithKeys = True, json: Json = None) -> None:
    """Copy a server's data folder and certificate into a new folder, also while it serves."""
    with needing("service", "backup"):
        from tacita.server.core import backup
    service = settings.service
    tls = service.new_certificate
    if tls is None and service.certificate is not None:
        warn("the certificate's two files are the operator's: keep them, too")
    with progress("backup") as report:
        contents = backup.back_up(_data(settings, "backup"), folder, tls, _bytes(report), with_keys=keys)
    _show(contents, f"{shown(str(folder))} holds", json)
    if contents.left_out:
        say(f"left out: {several(contents.left_out, 'row')} whose file was gone, not whole, or damaged")
    say("not in it: model folders, tacita.toml, resume points of requests that run")


@taking(LINE, FILE)
def restore(folder: Folder, settings: Settings, json: Json = None) -> None:
    """Make a server's data folder and certificate from a backup, each file checked."""
    with needing("service", "restore"):
        from tacita.server.core import backup
    data, tls = _data(settings, "restore"), settings.service.new_certificate
    with progress("restore") as report:
        contents = backup.restore(folder, data, tls, _bytes(report))
    _show(contents, f"{shown(str(data))} is restored, every sum is right:", json)


def _data(settings: Settings, what: str) -> Path:
    if settings.service.data is None:
        raise InputError(f"{what}: the server's data folder is not named", hint="--data FOLDER")
    return settings.service.data


def _bytes(report: object) -> object:
    """Turns bytes that were copied into a report of progress."""
    raise NotImplementedError
