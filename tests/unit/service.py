"""A two-party server of a tiny model in this process, with limits and caps of the test's choice; and clients
that misbehave."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from random_checkpoint import make_random_checkpoint

from tacita.checkpoint import Checkpoint
from tacita.client.store import PublicCache
from tacita.planning.request import PlanRequest
from tacita.two_party.admission import SessionLimiter, SessionLimits
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.limits import limits_of
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol.party import Identity, Listener, Party, dial
from tacita.two_party.reception import Reception, Visit, accept_until
from tacita.two_party.server import TwoPartyServer

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
CHECKPOINT: Checkpoint = make_random_checkpoint()
SECONDS = 180.0  # after which a test gives up


def make_server(*, embeddings: str = "published", most: int | None = None, **limits: float) -> TwoPartyServer:
    """limits: those of `Limits` that the test wants otherwise."""
    plan = make_two_party_plan(CHECKPOINT, PlanRequest(tokens=16, texts=TEXTS, embeddings=embeddings))
    usual = limits_of(plan, bits_per_second=1e9)
    return TwoPartyServer(plan, CHECKPOINT, replace(usual, **limits), most)


@dataclass
class Service:
    """A server that listens, and the visits that are over."""

    listener: Listener
    identity: Identity | None
    folder: Path
    visits: list[Visit] = field(default_factory=list)
    told: threading.Condition = field(default_factory=threading.Condition)

    def note(self, visit: Visit) -> None:
        with self.told:
            self.visits.append(visit)
            self.told.notify_all()

    def wait(self, holds: Callable[[list[Visit]], bool]) -> list[Visit]:
        """The visits once they are as wanted."""
        with self.told:
            assert self.told.wait_for(lambda: holds(self.visits), SECONDS), self.visits
            return list(self.visits)

    def party(self, identity: Identity | None = None) -> Party:
        """A connection as the client."""
        trust = self.identity.certificate if self.identity else None
        plain = self.identity is None
        return dial(
            "127.0.0.1",
            self.listener.port,
            trust=trust,
            identity=identity,
            insecure_plain=plain,
            timeout=SECONDS,
            threads=1,
        )

    @contextlib.contextmanager
    def client(self, identity: Identity | None = None) -> Iterator[TwoPartyClient]:
        """A greeted client."""
        party = self.party(identity)
        try:
            yield TwoPartyClient(party, PublicCache(self.folder / "cache"))
        finally:
            party.close()

    def silent(self) -> socket.socket:
        """A TCP connection that says nothing."""
        return socket.create_connection(("127.0.0.1", self.listener.port), timeout=SECONDS)

    def silent_tls(self) -> ssl.SSLSocket:
        """A connection that says nothing after its TLS handshake."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(self.silent())


@contextlib.contextmanager
def service(
    server: TwoPartyServer,
    folder: Path,
    caps: SessionLimits | None = None,
    identity: Identity | None = None,
    client_ca: Path | None = None,
) -> Iterator[Service]:
    listener = Listener(
        "127.0.0.1", 0, identity=identity, client_ca=client_ca, insecure_plain=identity is None
    )
    serving, over = Service(listener, identity, folder), threading.Event()
    reception = Reception(server, SessionLimiter(caps or SessionLimits()), SECONDS, serving.note)
    arguments = over.is_set, listener, reception.receive, lambda error: None
    accepting = threading.Thread(target=accept_until, args=arguments)
    accepting.start()
    try:
        yield serving
    finally:
        over.set()
        accepting.join()
