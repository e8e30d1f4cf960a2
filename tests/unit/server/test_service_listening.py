"""Connections that only sit there, or do not read: closed, while a call that takes its time is not. Heads
that two readers might read differently: refused."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response

from tacita.errors import InputError
from tacita.server.connections import PendingConnections, Renewal, bound_socket, listen
from tacita.server.http import listening
from tacita.server.http.listening import (
    HttpServer,
    MinRateTransport,
    config_of,
    expiry_of,
    is_self_signed,
)
from tacita.server.store.bodies import MinRate
from tacita.two_party.protocol.party import Identity, new_identity

PATIENCE = 900.0  # after which a test gives up
ASK = b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 16 << 20  # bytes, more than systems hold for a reader
OVER = b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"


@dataclass
class Server:
    """go: set by the test, ends `GET /wait`. begun: released by each of them. held: all connections."""

    port: int = 0
    running: HttpServer = field(init=False)
    pending: PendingConnections = field(default_factory=lambda: PendingConnections(8, per_address=4))
    go: threading.Event = field(default_factory=threading.Event)
    held: ExitStack = field(default_factory=ExitStack)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def connect(self, first: bytes = b"", source: str = "127.0.0.1", buffer: int = 1 << 20) -> socket.socket:
        found = self.held.enter_context(socket.socket())
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        found.settimeout(PATIENCE)
        found.bind((source, 0))
        found.connect(("127.0.0.1", self.port))
        found.sendall(first)
        return found


def app_of(server: Server) -> FastAPI:
    app = FastAPI()

    @app.get("/now")
    async def now() -> str:
        return "now"

    @app.post("/refused")
    async def refused(request: Request) -> str:
        return "not read"

    @app.get("/large")
    async def large() -> Response:
        return Response(b"x" * LARGE)

    @app.get("/wait")
    async def wait() -> bool:
        server.begun.release()
        return await asyncio.to_thread(server.go.wait, PATIENCE)

    return app


@pytest.fixture
def identity(request: pytest.FixtureRequest, tmp_path: Path) -> Identity | None:
    """None, or a certificate for those tests that ask for it."""
    return new_identity(tmp_path, ["127.0.0.1"]) if getattr(request, "param", False) else None


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, identity: Identity | None) -> Iterator[Server]:
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", 2.0)
    monkeypatch.setattr(listening, "LINGER", 0.3)
    monkeypatch.setattr("tacita.server.connections.CLOSING", 0.3)
    found = Server()
    running = found.running = HttpServer(
        config_of(app_of(found), identity), lambda: None, found.pending, MinRate(0.4, 1e3)
    )
    with bound_socket("127.0.0.1", 0) as listener:
        listen(listener)
        found.port = listener.getsockname()[1]
        thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listener])))
        thread.start()
        with found.held:
            yield found
        found.go.set()
        running.should_exit = True
        thread.join(PATIENCE)


def closed(connection: socket.socket) -> bool:
    """Whether the server hangs up, sooner than uvicorn would by itself."""
    with connection:
        connection.settimeout(listening.KEEP_ALIVE / 2)
        while connection.recv(65536):
            pass
    return True


def answered(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith((b'"now"', b'"not read"', b"true")):
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    return data


@pytest.mark.parametrize("identity", [False, True], indirect=True)
def test_a_silent_connection_is_closed(server: Server) -> None:
    """Before its handshake, too."""
    assert closed(server.connect())


def test_a_head_that_does_not_end_is_given_up(server: Server) -> None:
    assert closed(server.connect(b"GET /now HTTP/1.1\r\nHost: "))


def test_so_is_the_head_of_a_second_call(server: Server) -> None:
    connection = server.connect(ASK)
    assert b" 200 " in answered(connection)
    connection.sendall(b"GET /now HTTP/1.1\r\nHo")
    assert closed(connection)


def test_a_body_that_nobody_reads_is_not_taken_for_ever(server: Server) -> None:
    connection = server.connect(OVER)
    answered(connection)
    connection.sendall(b"x" * 1000)
    assert closed(connection)


def test_calls_follow_each_other_on_a_connection(server: Server) -> None:
    with server.connect(ASK) as connection:
        assert b" 200 " in answered(connection)
        connection.sendall(ASK)
        assert b" 200 " in answered(connection)


def test_a_call_that_takes_its_time_is_not_given_up(server: Server) -> None:
    with server.connect(ASK.replace(b"/now", b"/wait")) as slow:
        assert closed(server.connect()), "longer than a silent one may take has passed"
        server.go.set()
        assert b" 200 " in answered(slow)


def test_an_address_has_its_number_of_connections_and_another_gets_in(server: Server) -> None:
    silent = [server.connect() for _ in range(4)]
    with server.connect(ASK) as fifth, server.connect(ASK, "127.0.0.2") as other:
        assert b" 200 " in answered(fifth) and b" 200 " in answered(other)
    assert all(closed(each) for each in silent)


def test_calls_under_way_are_not_sent_away(server: Server) -> None:
    slow = [server.connect(ASK.replace(b"/now", b"/wait")) for _ in range(4)]
    assert all(server.begun.acquire(timeout=PATIENCE) for _ in slow)
    assert closed(server.connect())
    server.go.set()
    assert all(b" 200 " in answered(each) for each in slow)


@pytest.mark.parametrize(("identity", "calls"), [(False, 1), (False, 50), (True, 1)], indirect=["identity"])
def test_an_answer_that_nobody_reads_is_given_up(
    server: Server, calls: int, identity: Identity | None
) -> None:
    server.running.config.timeout_keep_alive = 1  # second, after which TLS, whose socket holds all, is closed
    reader = secured(server.connect(buffer=4 << 10), identity)
    reader.sendall(ASK.replace(b"/now", b"/large") * calls)
    with reader, secured(server.connect(), identity) as other:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            other.sendall(ASK)
            assert b" 200 " in answered(other)
            if len(server.pending._open) == 1:
                return
    raise AssertionError("the reader is still there")


def secured(connection: socket.socket, identity: Identity | None) -> socket.socket:
    if identity is None:
        return connection
    context = ssl.create_default_context(cafile=identity.certificate)
    return context.wrap_socket(connection, server_hostname="127.0.0.1")


def test_a_refusal_arrives_while_the_body_is_still_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "LINGER", PATIENCE)
    with server.connect(OVER.replace(b"Host: x", b"Host: x\r\nConnection: close")) as sender:
        assert b" 200 " in answered(sender)
        for _ in range(3):  # none of them meets a connection that was reset
            assert b" 200 " in answered(server.connect(ASK))
            sender.sendall(b"x" * 1000)


def test_a_sender_that_was_refused_is_not_heard_for_ever(server: Server) -> None:
    assert closed(server.connect(OVER.replace(b"Host: x", b"Host: x\r\nConnection: close")))


@pytest.mark.parametrize(
    "head",
    [
        OVER.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"),
        b"GET /now HTTP/1.1\r\nHost: x\r\nX-Folded: a\r\n b\r\n\r\n",
        b"GET /now HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 70_000 + b"\r\n\r\n",
    ],
    ids=["two lengths", "folded", "long"],
)
def test_heads_that_may_be_read_in_two_ways_are_refused(server: Server, head: bytes) -> None:
    with server.connect(head) as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


class Slow:
    """A transport and its loop: what was written leaves at `rate` bytes a second of `now`."""

    def __init__(self, rate: float) -> None:
        self.rate, self.now, self.left, self.aborted = rate, 0.0, 0.0, False
        self.timer: tuple[float, Callable[[], None]] | None = None

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timer = (self.now + seconds, call)

    def get_write_buffer_size(self) -> int:
        return round(self.left)

    def write(self, data: bytes) -> None:
        self.left += len(data)

    def abort(self) -> None:
        self.aborted = True

    def run(self) -> float:
        """Until no timer is left; the seconds."""
        while self.timer:
            (at, call), self.timer = self.timer, None
            self.left = max(0.0, self.left - self.rate * (at - self.now))
            self.now = at
            call()
        return self.now


@pytest.mark.parametrize(
    ("rate", "aborted", "seconds"), [(0, True, 20), (20e3, True, 55), (33e3, False, 305), (1e6, False, 10)]
)
def test_answers_have_a_pace(rate: float, aborted: bool, seconds: float) -> None:
    slow = Slow(rate)
    MinRateTransport(slow, slow, MinRate(20.0, 32e3), lambda: False).write(b"x" * 10_000_000)
    assert (slow.run(), slow.aborted) == (pytest.approx(seconds, abs=5), aborted)


@pytest.mark.parametrize("identity", [True], indirect=True)
def test_a_renewed_certificate_is_shown_without_a_restart(
    server: Server, identity: Identity, tmp_path: Path
) -> None:
    def shown() -> str:
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", server.port))).hex()

    assert server.running.config.ssl is not None
    first, renewal = shown(), Renewal(server.running.config.ssl, identity)
    identity.certificate.write_text("no certificate")
    renewal.renew()
    assert shown() == first
    other = new_identity(tmp_path / "other", ["127.0.0.1"])
    for old, new in ((identity.certificate, other.certificate), (identity.key, other.key)):
        old.write_bytes(new.read_bytes())
    renewal.renew()
    assert shown() not in ("", first) and is_self_signed(identity.certificate)
    assert renewal.loaded == other.certificate.read_bytes() and expiry_of(renewal.loaded) > time.time()


@pytest.mark.parametrize("identity", [True], indirect=True)
def test_a_certificate_whose_files_change_is_read_anew(
    server: Server, identity: Identity, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where one of the two is replaced before the other, as renewing programs do."""
    assert server.running.config.ssl is not None
    renewal, other = Renewal(server.running.config.ssl, identity), new_identity(tmp_path / "other", ["x"])
    first = renewal.loaded
    with caplog.at_level(logging.INFO):
        renewal.look()
        other.certificate.replace(identity.certificate)
        renewal.look()
        assert renewal.loaded == first
        other.key.replace(identity.key)
        renewal.look()
        renewal.look()
    lines = [each.message for each in caplog.records if each.name == "tacita.server"]
    assert lines == ["certificate not renewed", "certificate renewed"]
    assert renewal.loaded == identity.certificate.read_bytes() != first


def test_files_that_change_while_they_are_read_leave_the_certificate(tmp_path: Path) -> None:
    class Late(ssl.SSLContext):
        def load_cert_chain(self, *_: Any) -> None:
            raise ssl.SSLError("key values mismatch")

    identity = new_identity(tmp_path / "tls", ["127.0.0.1"])
    renewal = Renewal(Late(ssl.PROTOCOL_TLS_SERVER), identity)
    first = renewal.loaded
    new_identity(tmp_path / "other", ["127.0.0.1"]).certificate.replace(identity.certificate)
    renewal._files = (identity.certificate, tmp_path / "other" / "key.pem")
    renewal.renew()
    assert renewal.loaded == first


def test_callers_are_refused_until_the_service_is_there() -> None:
    with bound_socket("127.0.0.1", 0) as bound:
        address = bound.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, PATIENCE)
        listen(bound)
        socket.create_connection(address, PATIENCE).close()
        with pytest.raises(InputError, match="cannot listen on"):
            bound_socket(*address)
