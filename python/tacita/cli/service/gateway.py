"""`tacita gateway` serves OpenAI's clients of this machine: what they send is encrypted here, and what comes
back is decrypted here, so that the server behind it sees neither."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from socket import socket
from typing import TYPE_CHECKING, Any, TypeAlias

from tacita import api
from tacita.cli.ask.core import own_server
from tacita.cli.ask.remote import NETWORK, how_of, is_service, token_of
from tacita.cli.console import err, progress, say, shown
from tacita.cli.options import Without, load_model, plan_request, taking
from tacita.cli.service.identity import beyond_loopback, show_listening
from tacita.cli.service.port import address, dial_server, identity_of
from tacita.client.calls import Meter, in_thread
from tacita.client.connect import connect_async
from tacita.data import DEFAULT_DECODER
from tacita.errors import InputError
from tacita.extras import needing
from tacita.plans.commitment import link_of
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import raise_descriptors, require_device
from tacita.settings import TIMEOUT, Keys, Settings
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Identity

if TYPE_CHECKING:
    from tacita.client.service import Session
    from tacita.plans.wire import Models

LINE: Keys = {
    "plan": ("model", "scheme", "tokens", "texts"),
    "network": ("connect", "trust", "token_file"),
    "gateway": ("listen", "api_key_file"),
}
FILE: Keys = {
    "plan": ("pooling", "begin", "link"),
    "run": ("threads", "device", "allow_insecure"),
    "network": ["prepared", *(name for name in NETWORK if name != "token_file")],
    "service": ("certificate", "key"),
    "gateway": ("calls",),
}
SLOWEST = 1000.0  # bytes a second at which answers must be read
OWN = Without(
    ("model", "tokens", "texts"),
    lambda settings, _: settings.network.connect,
    "with --connect: the server has its own",
)


@taking(LINE, FILE, OWN)
def run(settings: Settings) -> None:
    """Serve OpenAI's clients of this machine: embeddings, completions, chats, reranking. The server behind
    --connect sees none of it; without --connect both sides run here, to try it."""
    require_device(settings.run.device, "a gateway")
    kind = _service if is_service(settings) else _port  # without --connect its own server's
    own = identity_of(settings.service.certificate, settings.service.key)
    host, port = address(settings.gateway.listen, "--listen", 0)
    key = token_of(settings.gateway.api_key_file) if settings.gateway.api_key_file else None
    if beyond_loopback(host) and not (key and own):
        raise InputError(
            f"gateway: on {host} others of the network could read texts and use your token",
            hint="--api-key-file, and [service] certificate and key; or listen on 127.0.0.1",
        )
    with needing("gateway", "gateway"):
        from tacita.gateway import app  # noqa: F401 - the first that needs it
        from tacita.server.connections import bound_socket
    with bound_socket(host, port) as listener:
        if settings.network.connect:
            asyncio.run(_serve(settings, kind, listener, own, key))
            return
        model = load_model(settings.plan.model_copy(update={"model": settings.plan.model or DEFAULT_DECODER}))
        with progress("plan") as report:
            plan = api.plan(model, plan_request(settings.plan), scheme=BUMBLEBEE, progress=report)
        assert isinstance(plan, TwoPartyPlan)  # by its scheme
        with own_server(plan, model, settings) as local:
            asyncio.run(_serve(local, kind, listener, own, key))


async def _serve(
    settings: Settings, kind: Kind, listener: socket, own: Identity | None, key: str | None
) -> None:
    """Makes keys, then serves until SIGTERM or Ctrl-C."""
    from tacita.gateway.app import Gateway, app_of, verb_of
    from tacita.gateway.guard import Guard
    from tacita.server.connections import listen, pending_of
    from tacita.server.http.listening import HttpServer, config_of
    from tacita.server.store.bodies import MinRate

    host, port = listener.getsockname()[:2]
    async with kind(settings) as (models, open_session):
        with progress("keys") as report:
            gateway = Gateway(models, open_session, settings.plan.scheme, report)
            for name, model in (known := await gateway.models()).items():
                session, _ = await gateway.session(verb_of(model), name)
                await session.prepare(Meter(), report)
                say(f"{shown(name)}: {session.plan.scheme}, {session.plan.privacy}")
        if not known:
            raise InputError("gateway: no model there embeds, reranks or writes", hint="--connect, --model")
        gateway.report = lambda now: None
        app, log, local = app_of(gateway), partial(err.print, markup=False), not beyond_loopback(host)
        app.add_middleware(Guard, log=log, calls=settings.gateway.calls, key=key, local=local)
        pending, slowest = pending_of(raise_descriptors()), MinRate(TIMEOUT, SLOWEST)
        server = HttpServer(config_of(app, own), lambda: None, pending, slowest)
        listen(listener)
        show_listening("https://" if own else "http://", host, port, own)
        await server.serve(sockets=[listener])


# What is asked: the functions `models` and `open` of a service, or of a two-party server by its port.

Asked: TypeAlias = "tuple[Callable[[], Awaitable[Models]], Callable[..., Awaitable[Session]]]"
Kind: TypeAlias = "Callable[[Settings], AbstractAsyncContextManager[Asked]]"


@asynccontextmanager
async def _service(settings: Settings) -> AsyncIterator[Asked]:
    async with connect_async(settings.network.connect or "", **how_of(settings)) as service:
        yield service.models, service.open


@asynccontextmanager
async def _port(settings: Settings) -> AsyncIterator[Asked]:
    from tacita.client.connected import at_port
    from tacita.client.offers import choose

    link = link_of(settings.plan.link) if settings.plan.link else None
    session, models = await in_thread(
        lambda _: at_port(partial(dial_server, settings), settings.network.prepared, link)
    )

    async def list_models() -> Models:
        return models

    async def open_session(verbs: Sequence[str], model: str | None, scheme: str | None, **_: Any) -> Session:
        choose(models, verbs, model, scheme)
        return session

    try:
        yield list_models, open_session
    finally:
        await session.close()
