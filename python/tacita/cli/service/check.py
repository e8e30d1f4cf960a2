"""`tacita serve --check`: what a start needs, a line each, for systemd's ExecStartPre and containers. Nothing
is made, changed or planned."""

from __future__ import annotations

import shutil
import sqlite3
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import typer

from tacita.cli.console import say, shown, size
from tacita.cli.options import load_model
from tacita.cli.service.https import Served, request_for, require_serving, served
from tacita.cli.service.identity import certificate_names, require_secured
from tacita.cli.service.port import address, identity_of
from tacita.errors import InputError, TacitaError
from tacita.extras import needing
from tacita.resources import GB, available_memory, raise_descriptors
from tacita.server.connections import MOST, RESERVE, bound_socket
from tacita.settings import Settings
from tacita.two_party.protocol.party import Identity, certificate_problem

DAY = 86400.0


def check_all(settings: Settings) -> None:
    """Writes a line for each thing; one that fails does not keep the others. Raises Exit (2) where a server
    would not start."""
    failed = False
    for name, look in _things(settings):
        try:
            say(f"ok     {shown(name)}: {shown(look(), 1000)}")
        except (TacitaError, OSError) as error:
            failed, hint = True, getattr(error, "hint", "")
            say(
                f"[red]FAILS[/red]  {shown(name)}: {shown(f'{error} ({hint})' if hint else str(error), 1000)}"
            )
    if failed:
        raise typer.Exit(2)


def _things(settings: Settings) -> Iterator[tuple[str, Callable[[], str]]]:
    service = settings.service
    host, port = address(service.https, "--https", 0) if service.https else (service.host, service.port)
    yield "settings", partial(_settings, settings)
    yield "address", partial(_address, host, port)
    yield "certificate", partial(_certificate, settings, host)
    yield "descriptors", _descriptors
    if service.https and service.data:
        with needing("service", "serve --check"):
            import tacita.server.core.offers  # noqa: F401 - what the lines below need
        yield "data", partial(_data, service.data)
        yield "disk", partial(_disk, service.data)
    yield "memory", partial(_memory, settings.run.memory)
    for each in served(settings):
        yield f"model {each[0] or each[1].model or 'by default'}", partial(_model, settings, each)


def _settings(settings: Settings) -> str:
    require_serving(settings)
    return "they go together"


def _address(host: str, port: int) -> str:
    with bound_socket(host, port):
        return f"{host}:{port} is free"


def _certificate(settings: Settings, host: str) -> str:
    service = settings.service
    own, folder = identity_of(service.certificate, service.key), service.new_certificate
    require_secured(own, folder, service.names, plain=service.insecure_plain_tcp)
    if folder is not None:
        own = Identity(folder / "certificate.pem", folder / "key.pem")
        if not (own.certificate.is_file() and own.key.is_file()):
            return f"a new one is made for {', '.join(certificate_names(host, service.names))}"
    if own is None:
        return "none: no TLS"
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(own.certificate, own.key)
    for name in service.names:
        if problem := certificate_problem(own.certificate, name):
            raise InputError(f"clients that dial {name} would refuse it: {problem}", hint="renew it")
    if not service.https:
        return str(own.certificate)
    from tacita.server.http.listening import expiry_of

    if (days := (expiry_of(own.certificate.read_bytes()) - time.time()) / DAY) <= 0:
        raise InputError(f"{own.certificate}: not valid since {-days:.0f} days", hint="renew it")
    return f"{own.certificate}, for {days:.0f} days more"


def _descriptors() -> str:
    have, wanted = raise_descriptors(), 2 * MOST + RESERVE
    return f"{min(have, 10**9)}" + f", for all connections {wanted} (ulimit -n)" * (have < wanted)


def _data(data: Path) -> str:
    from tacita.server.core.settings import NAME, signing_key
    from tacita.server.store.ledger import NAME as LEDGER
    from tacita.server.store.tables import VERSION

    if not (data / LEDGER).is_file():
        return f"{data} is made at the start"
    if (data / NAME).exists():
        signing_key(data)
    try:
        with closing(sqlite3.connect((data / LEDGER).absolute().as_uri() + "?mode=ro", uri=True)) as ledger:
            (version,) = ledger.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise InputError(f"{data / LEDGER}: {error}", hint="restore a backup") from None
    if version > VERSION:
        raise InputError(f"ledger of version {version}, this release has {VERSION}", hint="a later release")
    goes = "" if version == VERSION else f", goes to {VERSION}"
    return f"{data}, ledger of version {version}{goes}"


def _disk(data: Path) -> str:
    from tacita.server.store.bodies import SPARE

    there = next(path for path in (data.absolute(), *data.absolute().parents) if path.exists())
    if (free := shutil.disk_usage(there).free) < SPARE:
        raise InputError(f"{size(free)} free, {size(SPARE)} are kept free", hint="a larger disk")
    return f"{size(free)} free"


def _memory(limit: float) -> str:
    free = available_memory()
    if free is not None and free < GB:
        raise InputError(f"{size(free)} are available", hint="at least 1 GB")
    return f"{size(free)} are available, a worker stays within {limit:g} GB" if free else "not known"


def _model(settings: Settings, model_: Served) -> str:
    name, options, schemes = model_
    model, data = load_model(options), settings.service.data
    if not settings.service.https or data is None:
        return str(model.name)
    from tacita.server.core.offers import FOLDER, kept_plan, public_name, request_under

    folder, request = data / FOLDER / public_name(name or model.name), request_for(settings, options, schemes)
    plans = {each: kept_plan(model, request_under(request, each), folder / each) for each in schemes}
    lines = (f"{each} {'is kept' if plan else 'is to be planned'}" for each, plan in plans.items())
    return f"{model.name}: {', '.join(lines)}"
