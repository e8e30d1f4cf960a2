"""Connections that only sit there: closed, while a call that takes its time is not."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from fastapi import FastAPI, Request

from tacita.service.http import listening
from tacita.service.http.listening import Listening, config_of, listening_socket

PATIENCE = 180.0  # after which a test gives up
ASK = b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n"
OVER = b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"


@dataclass
class Server:
    """go: set by the test, ends `GET /wait`."""

    port: int = 0
    go: threading.Event = field(default_factory=threading.Event)

    def connect(self, first: bytes = b"") -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
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

    @app.get("/wait")
    async def wait() -> bool:
        return await asyncio.to_thread(server.go.wait, PATIENCE)

    return app


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(listening, "GREETING", 0.3)
    found = Server()
    running = Listening(config_of(app_of(found), None), lambda: None)
    with listening_socket("127.0.0.1", 0) as listener:
        found.port = listener.getsockname()[1]
        thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listener])))
        thread.start()
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
        data += connection.recv(65536)
    return data


def test_a_silent_connection_is_closed(server: Server) -> None:
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
