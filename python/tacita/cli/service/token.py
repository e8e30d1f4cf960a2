"""`tacita token add|list|revoke`: who may ask a `tacita serve --https`."""

from __future__ import annotations

import json as json_module
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.table import Table

from tacita.cli.console import out, shown
from tacita.cli.options import option
from tacita.errors import FileError
from tacita.extras import needing

if TYPE_CHECKING:
    from tacita.service.ledger import Ledger
    from tacita.service.ledger.rows import Who

app = typer.Typer(help="Who may ask a server: bearer tokens and quotas.", no_args_is_help=True)
Data = Annotated[Path, typer.Option("--data", help="The server's data folder.")]
Name = Annotated[str, typer.Argument(help="Of the client: letters, digits, . _ -")]


@app.command()
def add(
    name: Name,
    data: Data,
    output: Annotated[
        Path | None,
        option("--output", help="Write the token to this new file (mode 0600), not to the terminal."),
    ] = None,
    operator: Annotated[bool, typer.Option("--operator", help="May read /metrics.")] = False,
    texts: Annotated[int | None, option("--texts", help="A day (default: any number).", min=1)] = None,
    tokens: Annotated[int | None, option("--tokens", help="Of texts that are written, a day.", min=1)] = None,
    megabytes: Annotated[int | None, option("--megabytes", help="A day, both ways.", min=1)] = None,
    seconds: Annotated[float | None, option("--seconds", help="Of evaluation a day.", min=1)] = None,
    keys: Annotated[int, typer.Option("--keys", help="Keys at the same time.", min=0)] = 4,
    per_minute: Annotated[int, typer.Option("--per-minute", help="Calls.", min=1)] = 600,
) -> None:
    """Make a client's token. It is shown once; the server keeps its hash."""
    with needing("service", "token"):
        from tacita.service.ledger import tokens as known
        from tacita.service.ledger.rows import Quota
    most = None if megabytes is None else megabytes * 10**6
    quota = Quota(texts, most, seconds, keys, per_minute, tokens)
    if output is None:
        out.print(known.add(_ledger(data), name, quota, operator=operator), soft_wrap=True)
        return
    with _new_file(output) as file:
        file.write(known.add(_ledger(data), name, quota, operator=operator) + "\n")
    out.print(f"token of {name} written to {shown(str(output))}", soft_wrap=True)


@app.command("list")
def list_(data: Data, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show all clients and their quotas; no tokens, which nobody has but they."""
    with needing("service", "token"):
        from tacita.service.ledger import tokens
    everyone = tokens.everyone(_ledger(data))
    if json:
        rows = [
            {"name": who.name, "made": who.made, "revoked": who.revoked, **vars(who.quota)}
            for who in everyone
        ]
        out.print_json(json_module.dumps(rows))
        return
    table = Table("client", "made", "texts a day", "seconds a day", "keys", "")
    for who in everyone:
        table.add_row(*_cells(who))
    out.print(table)


@app.command()
def revoke(name: Name, data: Data) -> None:
    """Take a client's token back: from the next call on it is nobody's."""
    with needing("service", "token"):
        from tacita.service.ledger import tokens
    tokens.revoke(_ledger(data), name)
    out.print(f"{name} is revoked")


def _ledger(data: Path) -> Ledger:
    from tacita.service.ledger import Ledger

    return Ledger(data)


@contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """Of mode 0600; there before a token is made, and gone where none is. Raises FileError."""
    try:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror})", hint="a new file") from error
    try:
        with file:
            yield file
    except BaseException:
        path.unlink()
        raise


def _cells(who: Who) -> list[str]:
    quota = who.quota
    most = ["any" if value is None else f"{value:g}" for value in (quota.texts, quota.seconds, quota.keys)]
    made = datetime.fromtimestamp(who.made, UTC).strftime("%Y-%m-%d")
    return [who.name, made, *most, "revoked" if who.revoked else "operator" if who.operator else ""]
