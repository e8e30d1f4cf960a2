"""`tacita serve`: a model that two-party clients can ask, some at the same time."""

from __future__ import annotations

import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tacita.checkpoint import Checkpoint
from tacita.cli.console import err, fail, out, progress, several, shown, size
from tacita.cli.options import (
    MODEL_DEFAULT,
    TOKENS_DEFAULT,
    Model,
    Pooling,
    Texts,
    Threads,
    load_model,
    read_texts,
)
from tacita.cli.two_party import (
    TIMEOUT_DEFAULT,
    Certificate,
    Key,
    Plain,
    Profile,
    Timeout,
    cost_line,
    expectation,
    identity_of,
    show_profile,
)
from tacita.errors import InputError, PeerError
from tacita.plan.executor import Progress
from tacita.plan.two_party import TwoPartyPlan, make_two_party_plan
from tacita.plan.two_party_cost import for_link
from tacita.protocol.party import Identity, Listener, Party, fingerprint, new_identity
from tacita.server.two_party import TwoPartyServer

BANDWIDTH = 1000.0
WAIT = 0.5  # seconds between two looks at Ctrl-C


class ServedScheme(StrEnum):
    """Schemes with a server that listens."""

    bumblebee = "bumblebee"


def run(
    scheme: Annotated[ServedScheme, typer.Option("--scheme", help="Two-party protocol.")] = ServedScheme.bumblebee,
    model: Model = MODEL_DEFAULT,
    pooling: Pooling = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on (0: a free one).", min=0, max=65535)] = 0,
    tokens: Annotated[
        int, typer.Option("--tokens", help="Tokens of every request, so that its length does not show.")
    ] = TOKENS_DEFAULT,
    certificate: Certificate = None,
    key: Key = None,
    new_certificate: Annotated[
        Path | None,
        typer.Option(
            "--new-certificate", help="Make a self-signed certificate in this folder, or use it.", show_default=False
        ),
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option("--client-ca", help="Admit only clients with a certificate signed by this.", show_default=False),
    ] = None,
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
        int, typer.Option("--clients", help="Sessions at the same time; more clients wait.", min=1, max=256)
    ] = 4,
    once: Annotated[bool, typer.Option("--once", help="End after the first client.", show_default=False)] = False,
    timeout: Timeout = TIMEOUT_DEFAULT,
    profile: Profile = False,
    calibration: Texts = None,
    threads: Threads = 0,
) -> None:
    """Serve a model by the two-party protocol: it sees neither the texts nor the answers."""
    identity = _identity(host, identity_of(certificate, key), new_certificate, insecure_plain_tcp)
    embeddings = "published" if public_embeddings else "hidden"
    server = _server(load_model(model, pooling), tokens, read_texts(calibration), embeddings, 1e6 * bandwidth)
    listener = Listener(host, port, identity=identity, client_ca=client_ca, insecure_plain=insecure_plain_tcp)
    _announce(server, host, listener.port, identity)
    places = threading.BoundedSemaphore(clients)
    while True:
        if (party := _next(listener, timeout, threads)) is None:
            continue
        if once:
            return _serve(server, party, profile)
        places.acquire()
        threading.Thread(target=_serve_in, args=(places, server, party, profile), daemon=True).start()


def _identity(host: str, given: Identity | None, folder: Path | None, plain: bool) -> Identity | None:
    """Exactly one of a certificate, a folder for a new one, and plain TCP."""
    if sum((given is not None, folder is not None, plain)) != 1:
        raise InputError(
            "serve: say how the connection is secured",
            hint="--certificate PEM --key PEM, --new-certificate FOLDER, or --insecure-plain-tcp",
        )
    if folder is None:
        return given
    made = Identity(folder / "certificate.pem", folder / "key.pem")
    if made.certificate.is_file() and made.key.is_file():
        return made
    return new_identity(folder, sorted({host, "localhost"}))


def _server(
    checkpoint: Checkpoint, tokens: int, texts: list[str] | None, embeddings: str, link: float
) -> TwoPartyServer:
    began = time.monotonic()
    with progress("calibrate") as report:

        def seen(done: int, total: int) -> None:
            spent = time.monotonic() - began
            report(Progress("text", done, total, spent, spent / done * (total - done)))

        plan = make_two_party_plan(checkpoint, tokens, texts, embeddings=embeddings, progress=seen)
    return TwoPartyServer(for_link(plan, link), checkpoint)


def _announce(server: TwoPartyServer, host: str, port: int, identity: Identity | None) -> None:
    plan: TwoPartyPlan = server.plan
    out.print(
        f"{shown(plan.name)}: {several(plan.config.layers, 'layer')}, {plan.tokens} tokens, plan {plan.hash[:12]}"
    )
    what = "encrypted embedding" if plan.embedding else "embedding"
    part = f"sizes, calibrated ranges, tokenizer, {what} ({size(server.public_bytes)})"
    out.print(f"sent to every new client: {part}", soft_wrap=True)
    out.print(f"traffic: {expectation(plan)}", soft_wrap=True)
    if identity:
        out.print(
            f"certificate {shown(str(identity.certificate))}, SHA-256 {fingerprint(identity.certificate)}",
            soft_wrap=True,
        )
    out.print(f"listening on {shown(host)}:{port}, Ctrl-C ends", soft_wrap=True)
    out.file.flush()


def _next(listener: Listener, timeout: float, threads: int) -> Party | None:
    """The next client, if one comes now; one that is not let in is told on stderr."""
    try:
        return listener.accept(WAIT, timeout, threads)
    except PeerError as error:
        fail(error)
        return None


def _serve_in(places: threading.BoundedSemaphore, server: TwoPartyServer, party: Party, profile: bool) -> None:
    """A session of its own thread: a client that stalls keeps nobody else waiting."""
    try:
        _serve(server, party, profile)
    finally:
        places.release()


def _serve(server: TwoPartyServer, party: Party, profile: bool) -> None:
    began = time.monotonic()
    try:
        served = server.session(party)
        rows, cost = party.profile(), party.cost
    finally:
        party.close()
    seconds = time.monotonic() - began
    out.print(f"session of {several(served.texts, 'text')}: {cost_line(cost, seconds)}", soft_wrap=True)
    if profile:
        show_profile(rows)
    if served.problem:
        err.print("[yellow]the session ended early[/yellow]")
        fail(served.problem)
    out.file.flush()
