"""`tacita serve` serves a model to two-party clients, some at the same time."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from tacita import api
from tacita.cli.console import duration, err, out, progress, several, shown, size
from tacita.cli.options import load_model, plan_request, taking
from tacita.cli.service.serve import over_https, require_serving
from tacita.cli.two_party.connect import address, expectation, identity_of
from tacita.cli.two_party.identity import ServeLog, beyond_loopback, identity
from tacita.errors import InputError
from tacita.plans.commitment import LinkSpeed
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import raise_descriptors
from tacita.schemes.registry import scheme_of
from tacita.settings import ServiceOptions, Settings, TwoPartyOptions
from tacita.two_party.admission import SessionLimiter, SessionLimits
from tacita.two_party.limits import LONGEST_SAFE, limits_of, texts_of_a_key
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Identity, Listener, fingerprint, share_threads
from tacita.two_party.reception import Reception, Visit, accept_until
from tacita.two_party.server import TwoPartyServer

LINE = {
    "plan": ("model", "scheme", "tokens", "texts"),
    "service": (
        *("https", "data", "schemes", "host", "port", "new_certificate", "certificate", "key", "names"),
        *("client_ca", "insecure_plain_tcp", "anybody", "max_texts"),
    ),
}
FILE = {
    "plan": ("pooling", "documents", "preset", "begin"),
    "run": ("threads", "memory", "allow_insecure"),
    "ray": ("address", "nodes", "cores"),
    "service": (
        *("clients", "clients_per_address", "timeout", "once", "profile", "keep_keys", "most_keys", "proxy"),
        *("origin", "drain"),
    ),
    "two_party": ("hidden_embeddings", "insecure_any_client", "max_texts_per_key", "bandwidth"),
}


@taking(LINE, FILE)
def run(settings: Settings) -> None:
    """Serve a model by the two-party protocol, or with --https by any scheme: it sees neither the texts nor
    the answers."""
    service, party = settings.service, settings.two_party
    require_serving(settings)
    host = address(service.https, "--https", 0)[0] if service.https else service.host
    files = identity_of(service.certificate, service.key)
    plain = service.insecure_plain_tcp
    own = identity(host, files, service.new_certificate, service.names, plain=plain)
    if service.https:
        return over_https(settings, own)
    _require_connected(settings.plan.scheme or BUMBLEBEE)
    _require_known_clients(party, service.client_ca)
    raise_descriptors()
    cores = share_threads(settings.run.threads)
    checkpoint, bits_per_second = load_model(settings.plan), 1e6 * party.bandwidth
    request = replace(
        plan_request(settings.plan),
        scheme=BUMBLEBEE,
        embeddings="hidden" if party.hidden_embeddings else "published",
        link=LinkSpeed(bits_per_second, 0.0),
    )
    with progress("calibrate") as report:
        plan = api.plan(checkpoint, request, progress=report)
    assert isinstance(plan, TwoPartyPlan)  # as its scheme says
    sessions = 1 if service.once else service.clients
    caps = SessionLimits(sessions, service.clients_per_address, service.max_texts)
    limits = limits_of(plan, bits_per_second=bits_per_second, crowding=caps.sessions / cores)
    server = TwoPartyServer(plan, checkpoint, limits, _texts_of_a_key(plan, party.max_texts_per_key))
    listener = Listener(host, service.port, identity=own, client_ca=service.client_ca, insecure_plain=plain)
    _announce(server, caps, host, listener.port, own)
    _warn(plan, host, service.client_ca)
    _receive(server, caps, listener, service)


def _require_connected(scheme: str) -> None:
    """Raises InputError for a scheme whose server answers files."""
    if not scheme_of(scheme).connected:
        raise InputError(
            f"serve: a server of {scheme} waits for no connection, it answers files",
            hint=f"tacita publish --scheme {scheme}, then tacita evaluate",
        )


def _require_known_clients(party: TwoPartyOptions, client_ca: Path | None) -> None:
    """Raises InputError where a client that deviates could work on the table's key and is not known."""
    if party.hidden_embeddings and not (client_ca or party.insecure_any_client):
        raise InputError(
            "serve: [two_party] hidden_embeddings keeps the table from clients that run this program "
            "unchanged, not from others",
            hint="admit those that you know by --client-ca PEM, or all by insecure_any_client = true",
        )


def _texts_of_a_key(plan: TwoPartyPlan, given: int | None) -> int | None:
    if plan.embedding is None:
        return None
    return texts_of_a_key(plan.numbers) if given is None else given or None


def _receive(
    server: TwoPartyServer, caps: SessionLimits, listener: Listener, service: ServiceOptions
) -> None:
    """Accepts connections until Ctrl-C, or with `once` until the first admitted session is over."""
    over, log = threading.Event(), ServeLog(profile=service.profile)

    def on_visit(visit: Visit) -> None:
        log.visit(visit)
        if service.once and visit.admitted:
            over.set()

    reception = Reception(server, SessionLimiter(caps), service.timeout, on_visit)
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
