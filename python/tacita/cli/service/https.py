"""`tacita serve --https` serves a model by any scheme, for many clients whose keys stay."""

from __future__ import annotations

import asyncio
import ipaddress
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

from tacita.api import DEFAULT_MODEL
from tacita.checkpoint.documents import ARRAYS, LINES
from tacita.checkpoint.load import resolve
from tacita.cli.console import duration, progress, say, several, shown, size, warn
from tacita.cli.options import documents_of, load_model, plan_request
from tacita.cli.service.identity import beyond_loopback, show_listening
from tacita.cli.service.port import address
from tacita.errors import InputError
from tacita.evaluate.keyring import predicted_memory
from tacita.extras import needing
from tacita.planning.options import CACHING
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import LinkSpeed
from tacita.plans.plan import Plan
from tacita.plans.scheme import BUMBLEBEE, NAMES, SCHEMES
from tacita.resources import (
    CPU,
    GB,
    available_memory,
    device_number,
    devices,
    raise_descriptors,
    require_device,
)
from tacita.schemes.registry import scheme_of
from tacita.server import logs
from tacita.server.connections import bound_socket, listen, pending_of, renewing
from tacita.server.machines.cluster import Site, Where, require_reachable, where_of
from tacita.server.machines.costs import costs_of, store_bytes
from tacita.settings import PlanOptions, ServiceOptions, Settings
from tacita.two_party.protocol.party import Identity

if TYPE_CHECKING:
    from tacita.server.core.offers import Offers
    from tacita.server.core.service import Service
    from tacita.server.core.settings import Settings as Limits
    from tacita.server.machines.node_set import RayNodeSet

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
OF_HTTPS = (
    *("data", "schemes", "anybody", "proxy", "keep_keys", "keep_texts", "most_keys", "origin"),
    *("waiting", "keep_answers", "streams", "calls", "patience", "least_rate", "traces"),
)
OF_A_PORT = {
    "plan": ("scheme", "pooling"),
    "service": ("client_ca", "max_texts", "once", "host", "port", "clients_per_address"),
    "two_party": ("hidden_embeddings", "insecure_any_client", "max_texts_per_key"),
}


def require_serving(settings: Settings) -> None:
    """Raises InputError for a setting that goes with https, without it, for one that does not, with it, for
    values that cannot be, and for what would not be safe."""
    service, party = settings.service, settings.two_party
    device_of(settings)
    if service.client_ca and service.insecure_plain_tcp:
        what = "serve: --client-ca with --insecure-plain-tcp admits everybody"
        raise InputError(what, hint="certificates are shown over TLS: --certificate or --new-certificate")
    if service.https is None:
        for name in OF_HTTPS:
            if name in service.model_fields_set:
                raise InputError(f"serve: [service] {name} is for --https", hint="--https HOST:PORT")
        if settings.plan.cache:
            raise InputError("serve: [plan] cache without --https", hint="two parties keep rows anyway")
        if settings.ray.address:
            raise InputError("serve: --ray without --https", hint="two parties compute on this machine")
        if not scheme_of(scheme := one_model(settings).plan.scheme or BUMBLEBEE).connected:
            raise InputError(
                f"serve: a server of {scheme} waits for no connection, it answers files",
                hint=f"tacita publish --scheme {scheme}, then tacita evaluate",
            )
        if party.hidden_embeddings and not (service.client_ca or party.insecure_any_client):
            raise InputError(
                "serve: [two_party] hidden_embeddings keeps the table from clients that run this program "
                "unchanged, not from others",
                hint="admit those that you know by --client-ca PEM, or all by insecure_any_client = true",
            )
        return
    for section, names in OF_A_PORT.items():
        options = getattr(settings, section)
        for name in names:
            if getattr(options, name) != type(options).model_fields[name].default:
                hint = "--schemes, and `tacita token` for limits"
                raise InputError(f"serve: [{section}] {name} is not for --https", hint=hint)
    if settings.plan.documents and set(service.schemes) != {BUMBLEBEE}:
        raise InputError("serve: --documents with --https", hint=f"two parties search: --schemes {BUMBLEBEE}")
    for name, table in settings.models.items():
        if ports := table.model_fields_set & {*OF_A_PORT["plan"], "documents"}:
            hint = "schemes = ..., and --documents for the one model of a service"
            raise InputError(f"serve: [models.{name}] {min(ports)} is not for --https", hint=hint)
    if service.data is None:
        raise InputError("serve: --https needs a folder for keys and requests", hint="--data FOLDER")
    if not service.schemes:
        raise InputError("serve: no schemes", hint=f"of {', '.join(NAMES)}")
    for address_ in service.proxy:
        _ip_address(address_)
    for scheme in service.schemes:
        if scheme not in NAMES:
            raise InputError(f"no scheme {scheme!r:.40}", hint=f"of {', '.join(NAMES)}")
    if service.insecure_plain_tcp and beyond_loopback(address(service.https, "--https", 0)[0]):
        what = "serve: plain HTTP would carry tokens for all to read"
        raise InputError(what, hint="--new-certificate FOLDER")
    if settings.ray.address and set(service.schemes) == {BUMBLEBEE}:
        what = f"--ray: {BUMBLEBEE} answers over a connection, on this machine"
        raise InputError(what, hint="--schemes thor, too")
    if settings.ray.address and any(plan.cache for _, plan, _ in served(settings)):
        what = "serve: [plan] cache with --ray"
        raise InputError(what, hint="rows are kept on this machine: one of the two")


def device_of(settings: Settings) -> str:
    """Returns what evaluates ciphertexts, the processor or a device by its number. Raises InputError for one
    that there is not or that would evaluate none, and for several workers: each takes half of its memory."""
    run, service, ray = settings.run, settings.service, settings.ray
    pools = sum(scheme != BUMBLEBEE for *_, schemes in served(settings) for scheme in schemes)
    without = "a port" if service.https is None else not pools and BUMBLEBEE
    require_device(run.device, without, ray.address and "--ray")
    number = None if without or ray.address else device_number(run.device)
    if number is not None and pools > 1:
        message = f"serve: device {run.device:.60} for {pools} models and schemes on ciphertexts"
        raise InputError(message, hint="one of them in a service, or [run] device = cpu")
    return CPU if number is None else f"opencl:{number}"


def over_https(settings: Settings, own: Identity | None) -> None:
    """Serves until SIGTERM or Ctrl-C. own: its certificate. Raises what planning and starting raise."""
    host, port = address(settings.service.https or "", "--https", 0)
    ray = settings.ray
    where = where_of(ray.address, ray.nodes, ray.cores) if ray.address else None
    if where is not None:
        require_reachable(where)
    with needing("service", "serve"):
        from tacita.server.http import strict  # noqa: F401 - the first that needs it
    logs.start()
    prefix = "tacita-serve-"
    with bound_socket(host, port) as listener, tempfile.TemporaryDirectory(prefix=prefix) as folder:
        settings = indexed(settings, Path(folder))
        limits = replace(_limits(settings), **_callers(settings.service, host, own))
        if settings.run.device != CPU:
            say(f"ciphertexts are evaluated {_device_words(limits.device)}")
        offers = offers_of_all(settings, on_nodes=where is not None)

        async def serve() -> None:
            async with machines(where, offers, limits.threads, limits.memory) as nodes:
                from tacita.server.core.service import Service

                await _listen(Service(offers, limits, nodes), listener, own, announce)

        def announce() -> None:
            _announce(offers, host, listener.getsockname()[1], own)

        asyncio.run(serve())


async def _listen(
    service: Service, listener: socket, own: Identity | None, announce: Callable[[], None]
) -> None:
    from tacita.server.http.app import app_of
    from tacita.server.http.listening import HttpServer, config_of, expiry_of
    from tacita.server.store.bodies import MinRate

    settings = service.settings
    pending = pending_of(raise_descriptors(), settings.proxies)
    min_rate = MinRate(settings.patience, settings.least_rate)
    config = config_of(app_of(service), own)
    listening = HttpServer(config, service.close_doors, pending, min_rate)
    await service.start()
    try:
        listen(listener)
        announce()
        with renewing(config.ssl, own) as renewal:
            if renewal:
                service.metrics.watch_certificate(lambda: expiry_of(renewal.loaded))
            await listening.serve(sockets=[listener])
    finally:
        await service.stop()


def _ip_address(given: str) -> str:
    """Returns an IP address in its canonical form. Raises InputError for a text that is none."""
    try:
        return str(ipaddress.ip_address(given))
    except ValueError:
        raise InputError(
            f"serve: [service] proxy {given!r:.60} is not an IP address",
            hint="the address that the proxy calls from",
        ) from None


def _limits(settings: Settings) -> Limits:
    from tacita.server.core.accounts import QUOTA
    from tacita.server.core.settings import Settings as Limits

    service, run = settings.service, settings.run
    assert service.data is not None  # `require_serving` saw it
    return Limits(
        service.data,
        anybody=QUOTA if service.anybody else None,
        threads=run.threads,
        memory=run.memory,
        device=device_of(settings),
        allow_insecure=run.allow_insecure,
        sessions=service.clients,
        prepared=service.prepared,
        silence=service.timeout,
        bits_per_second=1e6 * settings.two_party.bandwidth,
        drain=service.drain,
        proxies=tuple(map(_ip_address, service.proxy)),
        documents=settings.plan.documents,
        keep_keys=service.keep_keys * DAY,
        silent=service.keep_texts * MINUTE,
        waiting=service.waiting,
        traces=service.traces,
        kept=service.keep_answers * HOUR,
        streams=service.streams,
        address_per_minute=service.calls,
        patience=service.patience,
        least_rate=service.least_rate * 1e3,
        most_keys=None if service.most_keys is None else int(service.most_keys * GB),
    )


def _device_words(device: str) -> str:
    names = {each["device"]: shown(each["name"], 80) for each in devices()[0]}
    return f"on {device}, {names[device]}" if device in names else "by the processor"


def _callers(service: ServiceOptions, host: str, own: Identity | None) -> dict[str, Any]:
    from tacita.server.http.listening import is_self_signed
    from tacita.server.http.strict import hosts_of, origin_of

    origins = tuple(map(origin_of, service.origin))
    alone = service.anybody and not beyond_loopback(host)
    return {
        "origins": origins,
        "hosts": hosts_of(host, service.names, origins) if alone else None,
        "lasting": own is not None and not is_self_signed(own.certificate),
    }


def _announce(offers: Offers, host: str, port: int, own: Identity | None) -> None:
    for model in offers.models:
        for offer in model.offers:
            sent = f"{size(offer.traffic_bytes)} a request"
            keys = f", keys {size(offer.keys_bytes)} once" if offer.keys_bytes else ""
            keys += f", {size(offer.kept_bytes)} a text kept" if offer.kept_bytes else ""
            cost = f"{duration(offer.seconds)}, {sent}{keys}"
            say(f"{shown(model.name)} by {offer.scheme}: {cost}, plan {offer.plan[:12]}")
    show_listening(f"{'https' if own else 'http'}://", host, port, own)


# The machines of a Ray cluster that evaluate (`[ray]`), and what they will do in an hour.


@asynccontextmanager
async def machines(
    where: Where | None, offers: Offers, threads: int, memory: float
) -> AsyncIterator[RayNodeSet | None]:
    """Opens the nodes for as long as the block lasts, and describes them for each scheme. Yields None without
    `where`."""
    if where is None:
        yield None
        return
    from tacita.server.machines.cluster import ClusterRequest
    from tacita.server.machines.node_set import RayNodeSet

    plans = [offered.plan for offered in offers.named.values()]
    files = [offered for offered in offers.named.values() if isinstance(offered.plan, Plan)]
    store = store_bytes([offered.files for offered in files], where.nodes or 1)
    nodes = RayNodeSet(ClusterRequest(where, threads, store), len(files))
    await nodes.open()
    try:
        for plan in plans:
            say(_words(plan.scheme, plan, nodes.sites, memory))
        yield nodes
    finally:
        await nodes.close()


def _words(scheme: str, plan: object, sites: Sequence[Site], memory: float) -> str:
    if not isinstance(plan, Plan):
        return f"{shown(scheme)}: on this machine, since it answers over a connection"
    each = costs_of(plan, 0, min(site.cores for site in sites), memory).each
    on = f"{several(len(sites), 'evaluator')} on {several(len({site.node for site in sites}), 'node')}"
    rate = len(sites) * HOUR / each
    return f"{shown(scheme)}: {on}, {duration(each)} a request, {rate:,.0f} requests an hour by prediction"


# The models: each `--model`, or each table `[models.NAME]`, with its own plans.

Served = tuple[str, PlanOptions, tuple[str, ...]]


def served(settings: Settings) -> Iterator[Served]:
    """Yields name, plan options and schemes of each model; an empty name stands for the model's own. Those of
    the command line come in place of the tables."""
    plan, schemes = settings.plan, tuple(dict.fromkeys(settings.service.schemes))
    paths, tables = settings.service.models, settings.models
    if not tables or paths:
        for path in paths or (plan.model,):
            yield "", plan.model_copy(update={"model": path}), schemes
        return
    for name, table in tables.items():
        changes = {key: getattr(table, key) for key in table.model_fields_set - {"schemes"}}
        yield name, plan.model_copy(update=changes), tuple(dict.fromkeys(table.schemes or schemes))


def request_for(settings: Settings, plan: PlanOptions, schemes: Sequence[str]) -> PlanRequest:
    """Returns the plan request of a model, under the first of its schemes that has what it asks for, if one
    has, and over the link that is named. Raises what `plan_request` raises."""
    packed = [each for each in schemes if each in SCHEMES and plan.packing in SCHEMES[each].packings]
    caching = [each for each in schemes if each == CACHING]
    scheme = next(iter(caching if plan.cache else packed), schemes[0])
    request, party = plan_request(plan.model_copy(update={"scheme": scheme})), settings.two_party
    named = "bandwidth" in party.model_fields_set
    return replace(request, link=LinkSpeed(1e6 * party.bandwidth, 0.0) if named else None)


def one_model(settings: Settings) -> Settings:
    """Returns the settings of a port or a search, with its one model. Raises InputError for several."""
    if len(models := list(served(settings))) > 1:
        hint = "--https without --documents serves several"
        raise InputError(f"serve: {len(models)} models, and a port or a search has one", hint=hint)
    return settings.model_copy(update={"plan": models[0][1]})


def indexed(settings: Settings, folder: Path) -> Settings:
    """Returns the same settings, whose documents are an index: others are embedded or read once, and kept in
    the folder for the process that serves."""
    plan = one_model(settings).plan if settings.plan.documents else settings.plan
    if plan.documents is None or plan.documents.suffix not in (LINES, ARRAYS):
        return settings
    index = documents_of(plan.documents, load_model(plan.model_copy(update={"documents": None})))
    index.save(folder / "documents.index")
    indexed = plan.model_copy(update={"documents": folder / "documents.index"})
    return settings.model_copy(update={"plan": indexed})


def offers_of_all(settings: Settings, *, on_nodes: bool) -> Offers:
    """Returns all offers, and says what memory their workers may take. on_nodes: also writes the models for
    the nodes of a cluster."""
    from tacita.server.core.offers import offers_of, together

    data, each = settings.service.data, []
    assert data is not None  # `require_serving` saw it
    for name, plan, schemes in served(settings):
        model, source = load_model(plan), resolve(plan.model or DEFAULT_MODEL)
        request = request_for(settings, plan, schemes)
        silent, insecure = settings.service.keep_texts * MINUTE, settings.run.allow_insecure
        make = partial(offers_of, name=name, silent=silent)
        with progress(f"plan {name}".strip()) as report:
            offers = make(model, source, schemes, request, data, report, insecure=insecure)
        for offered in offers.named.values() if on_nodes else ():
            if not offered.offer.connected:
                from tacita.server.machines.node import write_model

                write_model(model, offered.folder)
        each.append(offers)
    offers = together(each)
    _say_memory(offers, settings.run.memory)
    return offers


def _say_memory(offers: Offers, limit: float) -> None:
    """Says what each worker takes at most, within so many GB, in all, and what this machine has."""
    takes = {
        f"{shown(name)} by {scheme}": predicted_memory(offered.plan, limit)
        for (name, scheme), offered in offers.named.items()
        if isinstance(offered.plan, Plan)
    }
    whole, free = sum(takes.values()), available_memory()
    if takes:
        each = ", ".join(f"{size(count)} for {what}" for what, count in takes.items())
        say(f"memory: {each}; {size(whole)} in all" + (f", {size(free)} are available" if free else ""))
    if free is not None and whole > free:
        warn("workers may need more memory than there is: lower [run] memory, or offer less")
