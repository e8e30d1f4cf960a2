"""`tacita serve --https` serves a model by any scheme, for many clients whose keys stay."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacita.checkpoint import Checkpoint
from tacita.cli.ask.spread import RAY
from tacita.cli.asked import Asked, standing_for
from tacita.cli.console import duration, out, progress, shown, size
from tacita.cli.options import PRESET_DEFAULT, Insecure, Preset, option
from tacita.cli.service.operator import machines, require_machines
from tacita.cli.steps.evaluate import Memory
from tacita.cli.two_party.connect import address
from tacita.cli.two_party.identity import beyond_loopback
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.extras import needing
from tacita.plans.scheme import BUMBLEBEE, NAMES
from tacita.resources import GB, raise_descriptors
from tacita.server.machines.cluster import Where, where_of
from tacita.two_party.protocol.party import Identity, fingerprint

if TYPE_CHECKING:
    from tacita.server.core.offers import Offers
    from tacita.server.core.service import Service
    from tacita.server.core.settings import Settings

SERVICE = "service"  # the parameter that the options stand for
SCHEMES = ("thor", BUMBLEBEE)
DRAIN = 20.0
KEEP_KEYS = 30.0  # days
DAY = 86400.0

Https = Annotated[
    str | None,
    option(
        "--https",
        metavar="HOST:PORT",
        help="Serve the HTTP API there, with any scheme, in place of the bare two-party port.",
    ),
]
Data = Annotated[
    Path | None,
    option("--data", help="With --https: the server's own folder of plans, clients, keys and requests."),
]
Schemes = Annotated[
    str | None,
    option("--schemes", help=f"With --https: separated by commas (default: {','.join(SCHEMES)})."),
]
Anybody = Annotated[
    bool, option("--anybody", help="With --https: answer callers without a token, too, as visitors.")
]
KeepKeys = Annotated[
    float,
    typer.Option("--keep-keys", help="With --https: days that keys stay without being used.", min=0.0),
]
MostKeys = Annotated[
    float | None,
    option("--most-keys", help="With --https: GB of all keys together (default: what the disk has).", min=0),
]
Proxies = Annotated[
    list[str] | None,
    option(
        "--proxy",
        metavar="ADDRESS",
        help="With --https: believe X-Forwarded-For from this address alone (may be repeated).",
    ),
]
Origin = Annotated[
    list[str] | None,
    option(
        "--origin",
        metavar="ORIGIN",
        help="With --https: answer pages of this site, too, as https://NAME (may be repeated).",
    ),
]
Drain = Annotated[
    float,
    typer.Option("--drain", help="With --https: seconds that requests get to end after SIGTERM.", min=0.0),
]


@dataclass(frozen=True)
class Serving:
    """The options of `--https`, and those beside it. where: the machines that evaluate; None for this one."""

    https: str
    data: Path
    schemes: Sequence[str]
    anybody: bool
    proxy: tuple[str, ...]
    keep_keys: float
    most_keys: float | None
    origin: tuple[str, ...]
    drain: float
    memory: float
    allow_insecure: bool
    preset: str
    where: Where | None

    @property
    def address(self) -> tuple[str, int]:
        """The host and port to listen on. Raises InputError."""
        return address(self.https, "--https", 0)


DECLARED = (
    ("https", Https, None),
    ("data", Data, None),
    ("schemes", Schemes, None),
    ("anybody", Anybody, False),
    ("proxy", Proxies, None),
    ("keep_keys", KeepKeys, KEEP_KEYS),
    ("most_keys", MostKeys, None),
    ("origin", Origin, None),
    ("drain", Drain, DRAIN),
    ("memory", Memory, MEMORY_GB),
    ("allow_insecure", Insecure, False),
    ("preset", Preset, PRESET_DEFAULT),
    *RAY,
)


def serving(command: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command: the options become its parameter `service`, None where --https is not given."""
    return standing_for(SERVICE, DECLARED, _built)(command)


def run(
    asked: Asked,
    service: Serving,
    own: Identity | None,
    names: Sequence[str],
    threads: int,
    sessions: int,
) -> None:
    """Serves until SIGTERM or Ctrl-C. names: that clients dial. Raises what planning and starting raise."""
    host, port = service.address
    if own is None and beyond_loopback(host):
        raise InputError(
            "serve: plain HTTP would carry tokens for all to read", hint="--new-certificate FOLDER"
        )
    if service.where is not None:
        require_machines(service.where, service.schemes, BUMBLEBEE)
    with needing("service", "serve"):
        from tacita.server.http.connections import bound_socket
        from tacita.server.watch import logs
    logs.start()
    with bound_socket(host, port) as listener:
        settings = replace(_settings(service, threads, sessions), **_callers(service, own, names))
        model = asked.load()
        offers = _offers(asked, service, model)
        asyncio.run(_serve(offers, model, settings, service.where, listener, host, own))


async def _serve(
    offers: Offers,
    model: Checkpoint,
    settings: Settings,
    where: Where | None,
    listener: socket,
    host: str,
    own: Identity | None,
) -> None:
    async with machines(where, offers, model, settings.threads, settings.memory) as nodes:
        from tacita.server.core.service import Service

        service = Service(offers, settings, nodes)
        port = listener.getsockname()[1]
        await _listen(service, listener, own, lambda: _announce(offers, host, port, own))


async def _listen(
    service: Service, listener: socket, own: Identity | None, announce: Callable[[], None]
) -> None:
    from tacita.server.http.app import app_of
    from tacita.server.http.connections import listen, lobby_of
    from tacita.server.http.listening import HttpServer, config_of
    from tacita.server.store.bodies import MinRate

    settings = service.settings
    lobby = lobby_of(raise_descriptors(), settings.proxies)
    min_rate = MinRate(settings.patience, settings.least_rate)
    listening = HttpServer(config_of(app_of(service), own), service.close_doors, lobby, min_rate)
    await service.start()
    try:
        if own:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, listening.renew)
        listen(listener)
        announce()
        await listening.serve(sockets=[listener])
    finally:
        await service.stop()


def _built(given: dict[str, Any]) -> Serving | None:
    """Takes the options of `--https` out of `given`; returns None without it. Raises InputError for one that
    goes with --https, without it, and for values that cannot be."""
    own = {name: given.pop(name) for name, *_ in DECLARED}
    if own["https"] is None:
        for name, _, default in DECLARED:
            if own[name] != default:
                option = name.replace("_", "-")
                raise InputError(f"serve: --{option} is for --https", hint="--https HOST:PORT")
        return None
    if own["data"] is None:
        raise InputError("serve: --https needs a folder for keys and requests", hint="--data FOLDER")
    own["schemes"] = _schemes(own["schemes"])
    own["proxy"] = tuple(map(_ip_address, own["proxy"] or ()))
    own["origin"] = tuple(own["origin"] or ())
    own["where"] = _where(own)
    return Serving(**{field.name: own[field.name] for field in fields(Serving)})


def _where(given: Mapping[str, Any]) -> Where | None:
    nodes, cores = given["ray_nodes"], given["ray_cores"]
    if given["ray"] is None:
        if nodes or cores:
            raise InputError("serve: --ray-nodes or --ray-cores without --ray", hint="--ray local")
        return None
    return where_of(given["ray"], nodes, cores)


def _schemes(given: str | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(given.split(","))) if given else SCHEMES
    for name in names:
        if name not in NAMES:
            raise InputError(f"no scheme {name!r:.40}", hint=f"of {', '.join(NAMES)}")
    return names


def _ip_address(given: str) -> str:
    """Returns an IP address in its canonical form. Raises InputError for a text that is none."""
    try:
        return str(ipaddress.ip_address(given))
    except ValueError:
        raise InputError(
            f"serve: --proxy {given!r:.60} is not an IP address", hint="the address that the proxy calls from"
        ) from None


def _offers(asked: Asked, service: Serving, checkpoint: Checkpoint) -> Offers:
    from tacita.server.core.offers import offers_of

    request = replace(asked.request, preset=service.preset)
    with progress("plan") as report:
        return offers_of(
            checkpoint,
            asked.folder,
            service.schemes,
            request,
            service.data,
            report,
            insecure=service.allow_insecure,
        )


def _settings(service: Serving, threads: int, sessions: int) -> Settings:
    from tacita.server.core.accounts import QUOTA
    from tacita.server.core.settings import Settings

    return Settings(
        service.data,
        anybody=QUOTA if service.anybody else None,
        threads=threads,
        memory=service.memory,
        allow_insecure=service.allow_insecure,
        sessions=sessions,
        drain=service.drain,
        proxies=service.proxy,
        keep_keys=service.keep_keys * DAY,
        most_keys=None if service.most_keys is None else int(service.most_keys * GB),
    )


def _callers(service: Serving, own: Identity | None, names: Sequence[str]) -> dict[str, Any]:
    """Returns the settings that say whose pages may call, and by which names. Raises InputError."""
    from tacita.server.http.connections import hosts_of, origin_of
    from tacita.server.http.listening import is_self_signed

    host, _ = service.address
    origins = tuple(map(origin_of, service.origin))
    alone = service.anybody and not beyond_loopback(host)
    return {
        "origins": origins,
        "hosts": hosts_of(host, names, origins) if alone else None,
        "lasting": own is not None and not is_self_signed(own.certificate),
    }


def _announce(offers: Offers, host: str, port: int, own: Identity | None) -> None:
    for model in offers.models:
        for offer in model.offers:
            sent = f"{size(offer.traffic_bytes)} a request"
            keys = f", keys {size(offer.keys_bytes)} once" if offer.keys_bytes else ""
            cost = f"{duration(offer.seconds)}, {sent}{keys}"
            out.print(
                f"{shown(model.name)} by {offer.scheme}: {cost}, plan {offer.plan[:12]}", soft_wrap=True
            )
    if own:
        certificate = f"certificate {shown(str(own.certificate))}, SHA-256 {fingerprint(own.certificate)}"
        out.print(certificate, soft_wrap=True)
    scheme = "https" if own else "http"
    out.print(f"listening on {scheme}://{shown(host)}:{port}, Ctrl-C ends", soft_wrap=True)
    out.file.flush()
