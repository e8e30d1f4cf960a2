"""`tacita token add|list|rotate|revoke` manages who may ask a `tacita serve --https`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.table import Column, Table

from tacita.cli.console import finite, out, reporting, say, shown
from tacita.cli.options import Json, option
from tacita.errors import FileError, InputError
from tacita.extras import needing

if TYPE_CHECKING:
    from tacita.server.sessions.messages import Used
    from tacita.server.store.ledger import Ledger
    from tacita.server.store.tables import Who

app = typer.Typer(help="Who may ask a server: bearer tokens and quotas.", no_args_is_help=True)
Data = Annotated[Path, typer.Option("--data", help="The server's data folder.")]
Name = Annotated[str, typer.Argument(help="Of the client: letters, digits, . _ -")]
Output = Annotated[
    Path | None,
    option("--output", help="Write the token to this new file (mode 0600), not to the terminal."),
]
DAY, HOUR, MB = 86400.0, 3600.0, 1e6
MOST = 10**9  # of any count, which the ledger has room for
count, most = partial(option, min=1, max=MOST), partial(typer.Option, min=0, max=MOST)
valid = partial(option, "--days", min=0, max=36_525, callback=finite)  # a century


@app.command()
def add(
    name: Name,
    data: Data,
    output: Output = None,
    operator: Annotated[bool, typer.Option("--operator", help="May read /metrics.")] = False,
    texts: Annotated[int | None, count("--texts", help="A day (default: any number).")] = None,
    tokens: Annotated[int | None, count("--tokens", help="Of texts that are written, a day.")] = None,
    megabytes: Annotated[int | None, count("--megabytes", help="A day, both ways.")] = None,
    seconds: Annotated[float | None, count("--seconds", help="Of evaluation a day.", callback=finite)] = None,
    keys: Annotated[int, most("--keys", help="Keys at the same time.")] = 4,
    caches: Annotated[int, most("--caches", help="Texts whose rows are kept, at once.")] = 2,
    cache_mb: Annotated[int, most("--cache-megabytes", help="Of these rows.")] = 10_000,
    per_minute: Annotated[int, most("--per-minute", help="Calls.", min=1)] = 600,
    days: Annotated[float | None, valid(help="For which the token is valid (default: for ever).")] = None,
) -> None:
    """Make a client's token. It is shown once; the server keeps its hash."""
    with needing("service", "token"):
        from tacita.server.store import tokens as registry
        from tacita.server.store.tables import Quota
    size = None if megabytes is None else megabytes * 10**6
    quota = Quota(texts, size, seconds, keys, per_minute, tokens, caches, cache_mb * 10**6)
    left = None if days is None else days * DAY
    _show(
        name,
        output,
        lambda: registry.add(ledger_of(data, new=True), name, quota, operator=operator, seconds=left),
    )


@app.command()
def rotate(
    name: Name,
    data: Data,
    output: Output = None,
    overlap: Annotated[
        float, most("--overlap", help="Hours for which the token before is valid, too.", callback=finite)
    ] = 24.0,
    days: Annotated[
        float | None, valid(help="For which the new token is valid (default: as the one before).")
    ] = None,
) -> None:
    """Make another token of the same client, whose keys and requests stay."""
    with needing("service", "token"):
        from tacita.server.store import tokens
    left = None if days is None else days * DAY
    _show(name, output, lambda: tokens.rotate(ledger_of(data), name, overlap * HOUR, left))


@app.command("list")
def list_(data: Data, json: Json = None) -> None:
    """Show all clients, their quotas and what they used today; no tokens, which nobody has but they."""
    with needing("service", "token"):
        from tacita.server.store import tokens, usage
    ledger = ledger_of(data)
    everyone = [(who, usage.today(ledger, who.id)) for who in tokens.everyone(ledger)]
    with reporting(json, [_row(who, used) for who, used in everyone]):
        table = Table("client", "texts", "tokens", "MB", "seconds", "keys", "calls", Column(no_wrap=True))
        for who, used in everyone:
            table.add_row(*_cells(who, used))
        out.print(table)
        out.print("texts, tokens, MB, seconds: used today (UTC) / in a day at most; calls: in a minute")


@app.command()
def revoke(name: Name, data: Data) -> None:
    """Take a client's token back: from the next call on it is nobody's, and within a minute the server
    removes the client's keys and requests."""
    with needing("service", "token"):
        from tacita.server.store import tokens
    tokens.revoke(ledger_of(data), name)
    out.print(f"{name} is revoked")


def ledger_of(data: Path, *, new: bool = False) -> Ledger:
    """Opens the ledger of a data folder. new: also one that is not there yet. Raises InputError."""
    from tacita.server.store.ledger import NAME, Ledger

    if not (new or (data / NAME).is_file()):
        raise InputError(f"{data} is no server's data folder", hint="as of tacita serve --data")
    return Ledger(data)


def _show(name: str, output: Path | None, make: Callable[[], str]) -> None:
    if output is None:
        say(make())
        return
    with _new_file(output) as file:
        file.write(make() + "\n")
    say(f"token of {name} written to {shown(str(output))}")


@contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """Opens a new file of mode 0600 before a token is made, and removes it if none is. Raises FileError."""
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


def _row(who: Who, used: Used) -> dict[str, object]:
    times = {"made": who.made, "expires": who.expires, "revoked": who.revoked}
    return {"name": who.name, **times, **vars(who.quota), "used": vars(used)}


def _cells(who: Who, used: Used) -> list[str]:
    quota = who.quota
    megabytes = None if quota.bytes is None else quota.bytes / MB
    day = [
        _of(used.texts, quota.texts),
        _of(used.tokens, quota.tokens),
        _of(used.bytes / MB, megabytes),
        _of(used.seconds, quota.seconds),
    ]
    most = ["any" if value is None else f"{value}" for value in (quota.keys, quota.per_minute)]
    return [who.name, *day, *most, _standing(who)]


def _of(used: float, most: float | None) -> str:
    return f"{used:.0f}/{'any' if most is None else f'{most:.0f}'}"


def _standing(who: Who) -> str:
    if who.revoked is not None:
        return "revoked"
    expires = "" if who.expires is None else f"to {_day(who.expires)}"
    return ", ".join(filter(None, ("operator" if who.operator else "", expires)))


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
