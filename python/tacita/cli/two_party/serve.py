"""`tacita serve` serves a model to two-party clients, some at the same time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tacita import api
from tacita.cli.asked import Asked, asking
from tacita.cli.console import duration, err, out, progress, several, shown, size
from tacita.cli.options import Threads, option
from tacita.cli.service.serve import Serving, serving
from tacita.cli.service.serve import run as over_https
from tacita.cli.two_party.connect import (
    TIMEOUT_DEFAULT,
    Certificate,
    Key,
    Plain,
    Profile,
    Timeout,
    expectation,
    identity_of,
)
from tacita.cli.two_party.identity import ServeLog, beyond_loopback, identity
from tacita.errors import InputError
from tacita.plans.commitment import LinkSpeed
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import raise_descriptors
from tacita.schemes.registry import scheme_of
from tacita.two_party.admission import SessionLimiter, SessionLimits
from tacita.two_party.limits import LONGEST_SAFE, limits_of, texts_of_a_key
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Identity, Listener, fingerprint, share_threads
from tacita.two_party.reception import Reception, Visit, accept_until
from tacita.two_party.server import TwoPartyServer

BANDWIDTH = 1000.0


@asking("scheme", "tokens", "calibration", "documents", "begin")
@serving
def run(
    asked: Asked,
    service: Serving | None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="Port to listen on (0: a free one).", min=0, max=65535)
    ] = 0,
    certificate: Certificate = None,
    key: Key = None,
    new_certificate: Annotated[
        Path | None,
        option("--new-certificate", help="Make a self-signed certificate in this folder, or use it."),
    ] = None,
    client_ca: Annotated[
        Path | None,
        option("--client-ca", help="Admit only clients with a certificate signed by this."),
    ] = None,
    name: Annotated[
        list[str] | None,
        option(
            "--name",
            help="With --new-certificate: a host name or IP address that clients dial (may be repeated).",
        ),
    ] = None,
    insecure_any_client: Annotated[
        bool,
        option(
            "--insecure-any-client",
            help="With --hidden-embeddings: serve clients that are not known, who can work on the table's "
            "key.",
        ),
    ] = False,
    insecure_plain_tcp: Plain = False,
    public_embeddings: Annotated[
        bool,
        typer.Option(
            "--public-embeddings/--hidden-embeddings",
            help="Give clients the embedding tables, or let them look words up in an encrypted one.",
        ),
    ] = True,
    bandwidth: Annotated[
        float,
        typer.Option(
            "--bandwidth", help="Of the link to the clients, Mbit/s: decides how transfers are made.", min=0.1
        ),
    ] = BANDWIDTH,
    clients: Annotated[
        int, typer.Option("--clients", help="Sessions at the same time; more are refused.", min=1, max=256)
    ] = 4,
    clients_per_address: Annotated[
        int | None,
        option(
            "--clients-per-address",
            help="Of these, sessions of one address (default: all but one; from this machine, all).",
            min=1,
        ),
    ] = None,
    max_texts: Annotated[
        int | None,
        option(
            "--max-texts",
            help="Texts of one client until the server ends: by certificate, or else by address (default: "
            "any number).",
            min=1,
        ),
    ] = None,
    max_texts_per_key: Annotated[
        int | None,
        option(
            "--max-texts-per-key",
            help="With --hidden-embeddings: texts of all clients before the table gets a new key "
            "(default: what answers cannot betray it by; 0: any number).",
            min=0,
        ),
    ] = None,
    once: Annotated[
        bool,
        option("--once", help="Serve one client at a time, and end after the first that asked for a text."),
    ] = False,
    timeout: Timeout = TIMEOUT_DEFAULT,
    profile: Profile = False,
    threads: Threads = 0,
) -> None:
    """Serve a model by the two-party protocol, or with --https by any scheme: it sees neither the texts nor
    the answers."""
    if service is not None:
        bare: dict[str, object] = {
            "--client-ca": client_ca,
            "--max-texts": max_texts,
            "--once": once,
            "--profile": profile,
        }
        bare |= {"--hidden-embeddings": not public_embeddings, "--scheme": asked.request.scheme}
        _require_none(bare | {"--documents": asked.documents, "--pooling": asked.pooling})
        own = identity(
            service.address[0],
            identity_of(certificate, key),
            new_certificate,
            name or [],
            plain=insecure_plain_tcp,
        )
        return over_https(asked, service, own, name or [], threads, clients)
    _require_connected(asked.request.scheme or BUMBLEBEE)
    own = identity(host, identity_of(certificate, key), new_certificate, name or [], plain=insecure_plain_tcp)
    _require_known_clients(public_embeddings, client_ca, insecure_any_client)
    raise_descriptors()
    cores = share_threads(threads)
    embeddings = "published" if public_embeddings else "hidden"
    checkpoint = asked.load()
    link = LinkSpeed(1e6 * bandwidth, 0.0)
    request = replace(asked.request, scheme=BUMBLEBEE, embeddings=embeddings, link=link)
    with progress("calibrate") as report:
        plan = api.plan(checkpoint, request, progress=report)
    assert isinstance(plan, TwoPartyPlan)  # as its scheme says
    caps = SessionLimits(1 if once else clients, clients_per_address, max_texts)
    limits = limits_of(plan, bits_per_second=1e6 * bandwidth, crowding=caps.sessions / cores)
    server = TwoPartyServer(plan, checkpoint, limits, _texts_of_a_key(plan, max_texts_per_key))
    listener = Listener(host, port, identity=own, client_ca=client_ca, insecure_plain=insecure_plain_tcp)
    _announce(server, caps, host, listener.port, own)
    _warn(plan, host, client_ca)
    _receive(server, caps, listener, timeout, profile=profile, once=once)


def _require_none(given: Mapping[str, object]) -> None:
    """Raises InputError for an option that --https does not take."""
    for name, value in given.items():
        if value:
            raise InputError(
                f"serve: {name} is not for --https", hint="--schemes, and `tacita token` for limits"
            )


def _require_connected(scheme: str) -> None:
    """Raises InputError for a scheme whose server answers files."""
    if not scheme_of(scheme).connected:
        raise InputError(
            f"serve: a server of {scheme} waits for no connection, it answers files",
            hint=f"tacita publish --scheme {scheme}, then tacita evaluate",
        )


def _require_known_clients(public_embeddings: bool, client_ca: Path | None, anybody: bool) -> None:
    """Raises InputError where a client that deviates could work on the table's key and is not known."""
    if not (public_embeddings or client_ca or anybody):
        raise InputError(
            "serve: --hidden-embeddings keeps the table from clients that run this program unchanged, not "
            "from others",
            hint="admit those that you know by --client-ca PEM, or all by --insecure-any-client",
        )


def _texts_of_a_key(plan: TwoPartyPlan, given: int | None) -> int | None:
    if plan.embedding is None:
        return None
    return texts_of_a_key(plan.numbers) if given is None else given or None


def _receive(
    server: TwoPartyServer,
    caps: SessionLimits,
    listener: Listener,
    timeout: float,
    *,
    profile: bool,
    once: bool,
) -> None:
    """Accepts connections until Ctrl-C, or with `once` until the first admitted session is over."""
    over, log = threading.Event(), ServeLog(profile=profile)

    def on_visit(visit: Visit) -> None:
        log.visit(visit)
        if once and visit.admitted:
            over.set()

    reception = Reception(server, SessionLimiter(caps), timeout, on_visit)
    accept_until(over.is_set, listener, reception.receive, log.accepting)


def _announce(
    server: TwoPartyServer, caps: SessionLimits, host: str, port: int, own: Identity | None
) -> None:
    plan, limits = server.plan, server.limits
    layers = several(plan.config.layers, "layer")
    out.print(f"{shown(plan.name)}: {layers}, {plan.tokens} tokens, plan {plan.hash[:12]}")
    what = "encrypted embedding" if plan.embedding else "embedding"
    part = f"sizes, calibrated ranges, tokenizer, {what} ({size(server.public_bytes)})"
    out.print(f"sent to every new client: {part}", soft_wrap=True)
    out.print(f"traffic: {expectation(plan.program, plan.pace)}", soft_wrap=True)
    out.print(
        f"limits: {several(caps.sessions, 'session')}; {duration(limits.handshake)} to agree and "
        f"{duration(limits.part(server.public_bytes))} with the part, {duration(limits.text)} a text, "
        f"{duration(limits.idle)} between texts, {size(limits.queue)} unread",
        soft_wrap=True,
    )
    if own:
        out.print(
            f"certificate {shown(str(own.certificate))}, SHA-256 {fingerprint(own.certificate)}",
            soft_wrap=True,
        )
    out.print(f"listening on {shown(host)}:{port}, Ctrl-C ends", soft_wrap=True)
    out.file.flush()


def _warn(plan: TwoPartyPlan, host: str, client_ca: Path | None) -> None:
    """Warns of options that an operator may not have meant."""
    if beyond_loopback(host) and client_ca is None:
        err.print(
            "[yellow]warning:[/yellow] whoever reaches this address is served, and one that deviates from "
            "the protocol "
            "learns the weights far faster than answers tell them (--client-ca admits clients that you know)",
            soft_wrap=True,
        )
    if plan.embedding and plan.numbers > LONGEST_SAFE:
        err.print(
            f"[yellow]warning:[/yellow] an answer of {plan.numbers} numbers can carry the hidden "
            "table's key to "
            "a client that deviates from the protocol, in one or two texts",
            soft_wrap=True,
        )
