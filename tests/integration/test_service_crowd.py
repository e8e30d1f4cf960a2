"""A service among connections that say nothing: others are answered, and its log stays short."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacita.cli.service.started import Started, started
from tacita.resources import raise_descriptors

pytestmark = pytest.mark.native
DESCRIPTORS, SILENT = 256, 400
ANSWERED = 25.0  # seconds in which another address is answered


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crowd") / "log"


@pytest.fixture(scope="module")
def server(log: Path) -> Iterator[Started]:
    settings = {"service": {"drain": 0}}
    options = ("--schemes", "bumblebee", "--tokens", "16", "--anybody")
    with started(log.parent, *options, settings=settings, descriptors=DESCRIPTORS) as found:
        yield found


def connection(server: Started, source: str = "127.0.0.1") -> socket.socket:
    port = int(server.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), ANSWERED, source_address=(source, 0))


def status(server: Started, source: str = "127.0.0.1", host: str = "localhost") -> bytes:
    """The first line of what `/healthz` says to a caller from this address, who calls it by this name."""
    context = ssl.create_default_context(cafile=server.certificate)
    with context.wrap_socket(connection(server, source), server_hostname="127.0.0.1") as caller:
        caller.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return caller.recv(4096).partition(b"\r\n")[0]


def test_silent_connections_keep_no_other_address_out(server: Started, log: Path) -> None:

    assert raise_descriptors() > SILENT
    with contextlib.ExitStack() as held:
        for _ in range(SILENT):
            held.enter_context(connection(server))
        for source in ("127.0.0.2", "127.0.0.1"):  # another address, and the crowd's own
            began = time.monotonic()
            assert status(server, source) == b"HTTP/1.1 200 OK"
            assert time.monotonic() - began < ANSWERED
    lines = log.read_text().splitlines()
    assert len(lines) < 50 and not any("Traceback" in line for line in lines)


def test_a_page_whose_name_was_bound_to_this_machine_is_refused(server: Started) -> None:
    assert status(server, host="evil.example") == b"HTTP/1.1 421 Misdirected Request"
    assert status(server, host="127.0.0.1") == b"HTTP/1.1 200 OK"


def test_a_signal_has_the_certificate_read_anew(server: Started, log: Path) -> None:
    server.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + ANSWERED
    while "certificate renewed" not in log.read_text() and time.monotonic() < until:
        assert status(server) == b"HTTP/1.1 200 OK"
    assert "certificate renewed" in log.read_text()
