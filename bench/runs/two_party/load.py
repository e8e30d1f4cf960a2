"""How much longer an honest client of `tacita serve` takes while others misbehave: seconds alone, under load,
their ratio.

    python -m bench serve-under-load [--model DIR] [--tokens 128] [--runs 5] [--json F]

Server, load and honest client are processes of one machine, over TLS on loopback, so that the load's own work
is counted too. Connections that the server ends are made again. The kinds of load:

    silent   200 TCP connections that say nothing
    tls      200 that say nothing after their TLS handshake
    senders  200 that send one byte a second after it
    readers  200 that ask for the public part and read none of it
    stalled  3 that are given leave to have a text classified, which takes three of four places, and then say
    nothing
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Annotated, Any

from bench.options import ModelFolder, Tokens, markdown
from tacita import compiled
from tacita.cli.console import write_report
from tacita.cli.options import TOKENS_DEFAULT, Json, option
from tacita.client.store import PublicCache
from tacita.data import DEFAULT_MODEL
from tacita.errors import TacitaError
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.party import dial

HOST, TEXT = "127.0.0.1", "a film of quiet beauty"
ASKED = 1.5  # times the usual
SECOND = 1.0
Open = Callable[[int, Path], Any]  # port, certificate -> a connection that misbehaves


def serve_under_load(
    model: ModelFolder = DEFAULT_MODEL,
    tokens: Tokens = TOKENS_DEFAULT,
    runs: Annotated[int, option("--runs", help="Pairs of sessions, alone and beside others.", min=1)] = 5,
    json: Json = None,
) -> None:
    """Time an honest client of `tacita serve` while others misbehave, and alone."""
    rows: Any = measured(model, tokens, runs)
    cells = (
        (f"{row['count']} {row['kind']}", *(f"{row[name]:.2f}" for name in ("alone", "with", "ratio")))
        for row in rows
    )
    print(*markdown(("others", "seconds alone", "seconds with them", "ratio"), cells), sep="\n")
    print(f"asked for: at most {ASKED}")
    write_report(json, rows)


def measured(model: Path, tokens: int, runs: int) -> list[dict[str, Any]]:
    """One row a kind of load: medians over `runs` pairs of sessions of one text, alone and just after it
    under the load."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), model, tokens) as port:
        certificate, cache = Path(folder) / "pem" / "certificate.pem", PublicCache(Path(folder) / "cache")
        honest(port, certificate, cache)  # which fetches the public part
        for kind, (count, _) in KINDS.items():
            pairs = []
            for _ in range(runs):
                alone = honest(port, certificate, cache)
                with loaded(kind, port, certificate):
                    pairs.append((alone, honest(port, certificate, cache)))
            rows.append({"kind": kind, "count": count, "runs": pairs, **summary(pairs)})
    return rows


def summary(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Medians of the seconds, and of the ratios pair by pair, which other work on the machine disturbs
    less."""
    alone, under = zip(*pairs, strict=True)
    ratio = statistics.median(b / a for a, b in pairs)
    return {"alone": statistics.median(alone), "with": statistics.median(under), "ratio": ratio}


def honest(port: int, certificate: Path, cache: PublicCache) -> float:
    """Seconds from dialling to the answer of one text."""
    began = time.monotonic()
    party = dial(HOST, port, trust=certificate, timeout=300.0)
    try:
        client = TwoPartyClient(party, cache)
        client.classify(TEXT)
        spent = time.monotonic() - began
        client.end()
    finally:
        party.close()
    return spent


@contextlib.contextmanager
def serving(folder: Path, model: Path, tokens: int) -> Iterator[int]:
    """A server; its port."""
    options = ["--model", str(model), "--tokens", str(tokens), "--new-certificate", str(folder / "pem")]
    with said([sys.executable, "-m", "tacita", "serve", *options], "listening on") as line:
        yield int(line.split(",")[0].rpartition(":")[2])


@contextlib.contextmanager
def loaded(kind: str, port: int, certificate: Path) -> Iterator[None]:
    """The load, from a process of its own, once all of it is there."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=misbehave, args=(kind, port, certificate, ready))
    process.start()
    try:
        while not ready.wait(SECOND):
            if not process.is_alive():
                raise TacitaError(f"bench: the load {kind!r} ended", hint="its words are above")
        yield
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def said(command: list[str], word: str) -> Iterator[str]:
    """A process that runs, and the line in which it said this."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            while True:
                log.seek(0)
                lines = [line for line in log.read().splitlines() if word in line]
                if lines:
                    break
                if process.poll() is not None:
                    raise TacitaError(f"{command}: ended with {process.returncode}", hint="run it alone")
                time.sleep(SECOND / 10)
            yield lines[0]
        finally:
            process.kill()
            process.wait()


def misbehave(kind: str, port: int, certificate: Path, ready: Event) -> None:
    """Holds so many connections, makes new ones for those that are ended, and sends a byte a second where
    that is the load."""
    count, make = KINDS[kind]
    held = [make(port, certificate) for _ in range(count)]
    ready.set()
    while True:
        time.sleep(SECOND)
        held = [one if going_on(kind, one) else make(port, certificate) for one in held]


def going_on(kind: str, connection: Any) -> bool:
    """Whether the server has not ended it. Those of the engine are left as they are: each is good for a
    while."""
    if not isinstance(connection, socket.socket):
        return bool(time.monotonic() - connection.since < LASTS[kind])
    try:
        if kind == "senders":
            connection.send(b"T")
        return bool(connection.recv(1))
    except (ssl.SSLWantReadError, BlockingIOError):
        return True
    except OSError:
        return False


def silent(port: int, _: Path) -> socket.socket:
    """A TCP connection."""
    connection = socket.create_connection((HOST, port))
    connection.setblocking(False)
    return connection


def silent_tls(port: int, _: Path) -> ssl.SSLSocket:
    """A TLS connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = context.wrap_socket(socket.create_connection((HOST, port)))
    connection.setblocking(False)
    return connection


class Held:
    """A connection of the engine at some point of the protocol; closed when it is forgotten."""

    def __init__(self, port: int, certificate: Path, *, asking: bool) -> None:
        self.since = time.monotonic()
        try:
            self.party = dial(HOST, port, trust=certificate, timeout=300.0, threads=1)
            self._ask() if asking else self._fetch()
        except (TacitaError, compiled.native.TacitaError) as error:
            print(f"not held: {error}", flush=True)

    def _fetch(self) -> None:
        self.party.send(handshake.CLIENT_HELLO.pack(handshake.MAGIC, handshake.VERSION))
        self.party.receive(handshake.SERVER_HELLO.size)
        self.party.send(handshake.SEND)

    def _ask(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            TwoPartyClient(self.party, PublicCache(Path(folder)))
        handshake.ask(self.party)


KINDS: dict[str, tuple[int, Open]] = {
    "silent": (200, silent),
    "tls": (200, silent_tls),
    "senders": (200, silent_tls),
    "readers": (200, lambda port, certificate: Held(port, certificate, asking=False)),
    "stalled": (3, lambda port, certificate: Held(port, certificate, asking=True)),
}
LASTS = {"readers": 12.0, "stalled": 600.0}  # seconds after which one of the engine's is made again
