"""Dialling over a WebSocket: what a server's refusals become, and what is never sent or told."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets_world import SECONDS, TOKEN, World, world

from tacita.client.http.trust import context_of
from tacita.client.http.websocket import dial
from tacita.errors import InputError, LateError, PeerError, RefusedError, TacitaError
from tacita.two_party.protocol.party import new_identity
from tacita.two_party.protocol.refusal import Reason, Refusal

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoPartyArrival"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)


@pytest.fixture(scope="module")
def plain() -> Iterator[World]:
    with world() as made:
        yield made


class Answer(http.server.BaseHTTPRequestHandler):
    """Anything but an upgrade: status, kind, body and place of the server that it belongs to."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, kind, body, place = self.server.said
        self.server.heard.append(self.headers.get("Authorization"))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if place:
            self.send_header("Location", place)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Says nothing."""


@contextmanager
def answering(status: int, kind: str, body: bytes, place: str = "") -> Iterator[http.server.HTTPServer]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    server.said, server.heard = (status, kind, body, place), []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(SECONDS)
        server.server_close()


def dialled(server: http.server.HTTPServer) -> TacitaError:
    with pytest.raises(TacitaError) as caught:
        dial(f"ws://127.0.0.1:{server.server_port}/", token=TOKEN, context=None, timeout=SECONDS).close()
    assert TOKEN not in f"{caught.value} {caught.value.hint}"
    return caught.value


@pytest.mark.parametrize(
    ("model", "token", "kind", "told"),
    [
        ("m", "tct_another", InputError, "no such token"),
        ("forbidden", TOKEN, RefusedError, "not forbidden"),
        ("unknown", TOKEN, InputError, "not unknown"),
        ("often", TOKEN, RefusedError, "not often"),
    ],
)
def test_who_is_not_let_in_is_told_why(
    plain: World, model: str, token: str, kind: type[TacitaError], told: str
) -> None:
    with pytest.raises(kind, match=told) as caught:
        plain.party(model, token)
    assert type(caught.value) is kind and token not in str(caught.value)
    assert "\x1b" not in caught.value.hint, "a server must not steer the terminal"
    assert (model == "often") == caught.value.hint.endswith("(after 7 s)")


def test_a_server_without_a_place_refuses(plain: World) -> None:
    plain.refusing = Refusal(Reason.FULL, 3).error()
    try:
        with pytest.raises(RefusedError, match=r"full \(3 sessions\)"):
            plain.party()
    finally:
        plain.refusing = None
    assert plain.ends.empty(), "no session was opened"


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (503, "text/html", b"<h1>busy</h1>"),
        (503, "application/problem+json", b'{"title": 1}'),
        (503, "application/problem+json", b'{"title": "x", "status": 503, "detail": "' + b"y" * 3000 + b'"}'),
        (503, "application/problem+json", b" " * (65 << 10)),
        (503, "application/problem+json", b"\xff"),
    ],
)
def test_bodies_that_are_no_problem_are_not_shown(status: int, kind: str, body: bytes) -> None:
    with answering(status, kind, body) as server:
        error = dialled(server)
    assert isinstance(error, RefusedError) and str(error).endswith("the server answers with status 503")


@pytest.mark.parametrize("status", [200, 204, 302, 307, 404, 500])
def test_what_is_no_server_of_ours_is_said_so(status: int) -> None:
    """A redirection is not followed: the token is for the server that was asked."""
    with answering(200, "text/plain", b"") as other:
        place = f"http://127.0.0.1:{other.server_port}/"
        with answering(status, "text/plain", b"", place) as server:
            error = dialled(server)
            assert server.heard == [f"Bearer {TOKEN}"]
        assert other.heard == []
    assert type(error) is (InputError if status == 404 else PeerError)
    assert str(status) in str(error) and error.hint


def test_nobody_there_or_nobody_trusted(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match=r"127\.0\.0\.1:1: "):
        dial("wss://127.0.0.1:1/", token=TOKEN, context=context_of(), timeout=SECONDS)
    with (
        world(new_identity(tmp_path / "own", ["127.0.0.1"])) as made,
        pytest.raises(PeerError, match="not trusted"),
    ):
        dial(made.url(), token=TOKEN, context=context_of(), timeout=SECONDS)


def test_a_server_that_says_nothing_is_late() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(LateError, match="did not answer"),
    ):
        port = silent.getsockname()[1]
        dial(f"ws://127.0.0.1:{port}/", token=TOKEN, context=None, timeout=0.2)
