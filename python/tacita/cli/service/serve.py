"""`tacita serve` serves a model to two-party clients, some at the same time."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from socket import socket
from ssl import SSLContext
from typing import Annotated

import typer

from tacita import api
from tacita.api import DEFAULT_MODEL
from tacita.checkpoint.load import resolve
from tacita.cli.console import duration, out, progress, say, several, shown, size, warn
from tacita.cli.options import load_model, plan_request, taking
from tacita.cli.service.check import check_all
from tacita.cli.service.https import indexed, one_model, over_https, require_serving
from tacita.cli.service.identity import beyond_loopback, identity, show_listening
from tacita.cli.service.port import address, expectation, identity_of
from tacita.plans.commitment import LinkSpeed
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import raise_descriptors
from tacita.server import logs
from tacita.server.connections import bound_socket, listen, renewing
from tacita.server.sessions.listener import AddressClients, SessionLimits, SessionListener, tls_context
from tacita.server.sessions.messages import Ended, SessionSpec
from tacita.server.sessions.supervisor import Sessions
from tacita.settings import ServiceOptions, Settings, TwoPartyOptions
from tacita.two_party.limits import LONGEST_SAFE, Limits, limits_of
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Identity, share_threads

LINE = {
    "plan": ("documents", "scheme", "tokens", "texts"),
    "service": (
        *("models", "https", "data", "schemes", "port", "new_certificate", "certificate", "key", "names"),
        *("client_ca", "insecure_plain_tcp", "anybody", "max_texts"),
    ),
}
FILE = {  # of a service all keys that are not on the line
    "plan": (
        *("model", "pooling", "nearest", "titles", "preset", "begin", "reveal", "gap", "cache"),
        *("packing", "functions", "inputs", "prices"),
    ),
    "run": ("threads", "device", "memory", "allow_insecure"),
    "ray": ("address", "nodes", "cores"),
    "service": tuple(name for name in ServiceOptions.model_fields if name not in LINE["service"]),
    "two_party": tuple(TwoPartyOptions.model_fields),
}


Check = Annotated[
    bool, typer.Option("--check", help="Say whether it would start: a line for each thing, status 2 for no.")
]


@taking(LINE, FILE)
def run(settings: Settings, check: Check = False) -> None:
    """Serve a model by the two-party protocol, or with --https by any scheme: it sees neither the texts nor
    the answers."""
    if check:
        return check_all(settings)
    service, party = settings.service, settings.two_party
    require_serving(settings)
    host = address(service.https, "--https", 0)[0] if service.https else service.host
    files = identity_of(service.certificate, service.key)
    plain = service.insecure_plain_tcp
    own = identity(host, files, service.new_certificate, service.names, plain=plain)
    if service.https:
        return over_https(settings, own)
    settings = one_model(settings)
    logs.start()
    caps = SessionLimits(
        1 if service.once else service.clients, service.clients_per_address, service.max_texts
    )
    tls = None if own is None else tls_context(own, service.client_ca)
    crowding = caps.sessions / share_threads(settings.run.threads)
    with (
        bound_socket(host, service.port) as listener,
        tempfile.TemporaryDirectory(prefix="tacita-serve-") as folder,
    ):
        settings = indexed(settings, Path(folder))
        plan, rate = _plan(settings), 1e6 * party.bandwidth
        limits = limits_of(plan, bits_per_second=rate, crowding=crowding, prepared=service.prepared)
        path = Path(folder) / "plan.json"
        path.write_bytes(plan.to_bytes())
        spec = _spec(settings, plan, path, caps.sessions)

        def announce() -> None:
            _announce(plan, limits, caps, host, listener.getsockname()[1], own)
            _warn(plan, host, service.client_ca)

        asyncio.run(_serve(spec, caps, listener, tls, own, announce, service.drain, once=service.once))


def _plan(settings: Settings) -> TwoPartyPlan:
    party = settings.two_party
    request = replace(
        plan_request(settings.plan.model_copy(update={"packing": None})),  # two parties fill no slots
        scheme=BUMBLEBEE,
        embeddings="hidden" if party.hidden_embeddings else "published",
        link=LinkSpeed(1e6 * party.bandwidth, 0.0),
    )
    checkpoint = load_model(settings.plan)
    with progress("calibrate") as report:
        plan = api.plan(checkpoint, request, progress=report)
    assert isinstance(plan, TwoPartyPlan)  # as its scheme says
    return plan


def _spec(settings: Settings, plan: TwoPartyPlan, path: Path, sessions: int) -> SessionSpec:
    model, party = settings.plan, settings.two_party
    return SessionSpec(
        plan.name,
        resolve(model.model or DEFAULT_MODEL),
        path,
        settings.run.threads,
        sessions,
        plan.hash,
        bits_per_second=1e6 * party.bandwidth,
        silence=settings.service.timeout,
        pooling=model.pooling,
        documents=model.documents,
        texts_of_a_key=party.max_texts_per_key,
        prepared=settings.service.prepared,
    )


async def _serve(
    spec: SessionSpec,
    caps: SessionLimits,
    listener: socket,
    tls: SSLContext | None,
    own: Identity | None,
    announce: Callable[[], None],
    drain: float,
    *,
    once: bool,
) -> None:
    """Serves until SIGTERM, which lets sessions end, until Ctrl-C, which does not, or with `once` until the
    first session with a text is over."""
    over, sessions = asyncio.Event(), Sessions(spec)

    def on_end(session: Ended) -> None:
        if once and session.texts:
            over.set()

    await sessions.start()
    clients = AddressClients(spec.model, caps, on_end)
    port = SessionListener(sessions, caps.pending(raise_descriptors()), clients, spec.silence)
    acceptor = port.acceptor(listener, tls)
    try:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
        listen(listener)
        acceptor.start()
        announce()
        with renewing(tls, own):
            await over.wait()
        acceptor.close()
        await sessions.drain(drain)
    finally:
        acceptor.close()
        await sessions.stop()


def _announce(
    plan: TwoPartyPlan, limits: Limits, caps: SessionLimits, host: str, port: int, own: Identity | None
) -> None:
    layers = several(plan.config.layers, "layer")
    out.print(f"{shown(plan.name)}: {layers}, {plan.tokens} tokens, plan {plan.hash[:12]}")
    what = "encrypted embedding" if plan.embedding else "embedding"
    say(f"sent to every new client: sizes, calibrated ranges, tokenizer, {what}")
    say(f"traffic: {expectation(plan.program, plan.pace)}")
    say(
        f"limits: {several(caps.sessions, 'session')}; {duration(limits.handshake)} to agree and "
        f"{duration(1e6 * limits.loading)} a megabyte of the part, {duration(limits.text)} a text, "
        f"{duration(limits.idle)} between texts, {size(limits.queue)} unread"
    )
    show_listening("", host, port, own)


def _warn(plan: TwoPartyPlan, host: str, client_ca: Path | None) -> None:
    if beyond_loopback(host) and client_ca is None:
        warn(
            "whoever reaches this address is served, and one that deviates from the protocol learns the "
            "weights far faster than answers tell them (--client-ca admits clients that you know)"
        )
    if plan.embedding and plan.numbers > LONGEST_SAFE:
        warn(
            f"an answer of {plan.numbers} numbers can carry the hidden table's key to a client "
            "that deviates from the protocol, in one or two texts"
        )
