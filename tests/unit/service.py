"""A two-party server of a tiny model in this process, with limits and caps of the test's choice; and clients
that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from random_checkpoint import make_random_checkpoint

from tacita.checkpoint import Checkpoint
from tacita.client.store import PublicCache
from tacita.planning.request import PlanRequest
from tacita.server.child import Channel, Child
from tacita.server.connections import bound_socket, listen
from tacita.server.sessions import messages, supervisor
from tacita.server.sessions.listener import AddressClients, SessionLimits, SessionListener, tls_context
from tacita.server.sessions.messages import Ended, SessionSpec
from tacita.server.sessions.process import SessionHost
from tacita.server.sessions.supervisor import Sessions
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.limits import limits_of
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol.party import Identity, Party, dial
from tacita.two_party.server import TwoPartyServer

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
CHECKPOINT: Checkpoint = make_random_checkpoint()
SECONDS = 900.0  # after which a test gives up


def make_server(*, embeddings: str = "published", most: int | None = None, **limits: float) -> TwoPartyServer:
    """limits: those of `Limits` that the test wants otherwise."""
    plan = make_two_party_plan(CHECKPOINT, PlanRequest(tokens=16, texts=TEXTS, embeddings=embeddings))
    usual = limits_of(plan, bits_per_second=1e9)
    return TwoPartyServer(plan, CHECKPOINT, replace(usual, **limits), most)


class Thread:
    """Plays a process."""

    pid = 1

    def kill(self) -> None:
        """It ends with its socket."""

    async def wait(self) -> int:
        return 0


def child_of(server: TwoPartyServer, sessions: int) -> Child:
    """The sessions' process, played by a thread."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        host = SessionHost(server, sessions, SECONDS, Channel(theirs, messages.Order))
        with theirs:
            host.listen()
            for session in list(host._open.values()):
                session.close()
            while host._open:
                time.sleep(0.01)

    threading.Thread(target=serve, daemon=True).start()
    return Child(Thread(), ours, messages.Reply)  # type: ignore[arg-type]


@contextlib.contextmanager
def hosting(server: TwoPartyServer) -> Iterator[None]:
    """Has `Sessions` start no process, but a thread that serves."""

    async def start(spec: SessionSpec) -> Child:
        return child_of(server, spec.sessions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "start_process", start)
        yield


@dataclass
class Service:
    """A server that listens, and the sessions that are over."""

    identity: Identity | None
    folder: Path
    port: int = 0
    ended: list[Ended] = field(default_factory=list)
    told: threading.Condition = field(default_factory=threading.Condition)

    def note(self, session: Ended) -> None:
        with self.told:
            self.ended.append(session)
            self.told.notify_all()

    def wait(self, holds: Callable[[list[Ended]], bool]) -> list[Ended]:
        """The sessions that are over once they are as wanted."""
        with self.told:
            assert self.told.wait_for(lambda: holds(self.ended), SECONDS), self.ended
            return list(self.ended)

    def party(self, identity: Identity | None = None) -> Party:
        """A connection as the client."""
        trust = self.identity.certificate if self.identity else None
        plain = self.identity is None
        return dial(
            "127.0.0.1",
            self.port,
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
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

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
    """The two-party port of a server, in a thread with an event loop of its own."""
    serving, ready, over = Service(identity, folder), threading.Event(), asyncio.Event()
    limits, loops = caps or SessionLimits(), list[asyncio.AbstractEventLoop]()

    async def work() -> None:
        loops.append(asyncio.get_running_loop())
        spec = SessionSpec("m", folder, folder, 1, limits.sessions, "0" * 64)
        sessions, clients = Sessions(spec), AddressClients("m", limits, serving.note)
        await sessions.start()
        port = SessionListener(sessions, limits.pending(10_000), clients, SECONDS)
        with bound_socket("127.0.0.1", 0) as bound:
            acceptor = port.acceptor(bound, tls_context(identity, client_ca) if identity else None)
            listen(bound)
            acceptor.start()
            serving.port = bound.getsockname()[1]
            ready.set()
            await over.wait()
            acceptor.close()
            await acceptor.wait_closed()
        await sessions.stop()

    with hosting(server):
        thread = threading.Thread(target=asyncio.run, args=(work(),))
        thread.start()
        try:
            assert ready.wait(SECONDS)
            yield serving
        finally:
            loops[0].call_soon_threadsafe(over.set)
            thread.join()
