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

import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from bench.options import ModelFolder, Tokens, markdown
from bench.runs.callers import Caller, Target, callers, drip, idle
from tacita import compiled
from tacita.cli.console import write_report
from tacita.cli.options import TOKENS_DEFAULT, Json, option
from tacita.client.store import PublicCache
from tacita.data import DEFAULT_MODEL
from tacita.errors import TacitaError
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.party import Party, dial

HOST, TEXT = "127.0.0.1", "a film of quiet beauty"
ASKED = 1.5  # times the usual
LISTENING = "listening on"
SECOND = 1.0


def serve_under_load(
    model: ModelFolder = DEFAULT_MODEL,
    tokens: Tokens = TOKENS_DEFAULT,
    runs: Annotated[int, option("--runs", help="Pairs of sessions, alone and beside others.", min=1)] = 5,
    json: Json = None,
) -> None:
    """Time an honest client of `tacita serve` while others misbehave, and alone."""
    rows: Any = measured(model, tokens, runs)
    names = ("alone", "with", "ratio")
    cells = ((f"{row['count']} {row['kind']}", *(f"{row[name]:.2f}" for name in names)) for row in rows)
    print(*markdown(("others", "seconds alone", "seconds with them", "ratio"), cells), sep="\n")
    print(f"asked for: at most {ASKED}")
    write_report(json, rows)


def measured(model: Path, tokens: int, runs: int) -> list[dict[str, Any]]:
    """One row a kind of load: medians over `runs` pairs of sessions of one text, alone and just after it
    under the load; of the ratios pair by pair, which other work on the machine disturbs less."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), model, tokens) as port:
        certificate, cache = Path(folder) / "pem" / "certificate.pem", PublicCache(Path(folder) / "cache")
        honest(port, certificate, cache)  # which fetches the public part
        for kind, (count, caller) in KINDS.items():
            pairs = []
            for _ in range(runs):
                alone = honest(port, certificate, cache)
                with callers(Target(HOST, port, certificate), [(kind, caller)] * count):
                    pairs.append((alone, honest(port, certificate, cache)))
            medians = map(statistics.median, zip(*((a, b, b / a) for a, b in pairs), strict=True))
            figures = dict(zip(("alone", "with", "ratio"), medians, strict=True))
            rows.append({"kind": kind, "count": count, "runs": pairs, **figures})
    return rows


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
    command = [sys.executable, "-m", "tacita", "serve", *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None  # it is a pipe
    try:
        line = next((line for line in process.stdout if LISTENING in line), "")
        if not line:
            said = (folder / "log").read_text()[-2000:]
            raise TacitaError(f"bench: the server did not start: {said}", hint="run `tacita serve` alone")
        yield int(line.split(",")[0].rpartition(":")[2])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def sender(target: Target, count: int = 1000) -> None:
    """Sends so many bytes behind its handshake, one a second, and is silent then."""
    await drip(await target.secure(), b"T" * count, SECOND)


async def reader(target: Target) -> None:
    """Asks for the public part and reads none of it."""
    await _hold(target, _fetch, 12.0)


async def stalled(target: Target) -> None:
    """Is given leave to have a text classified, and says nothing then."""
    await _hold(target, _ask, 600.0)


async def _hold(target: Target, begin: Callable[[Party], None], seconds: float) -> None:
    """Holds a connection of the engine at some point of the protocol for so many seconds."""
    try:
        party = await asyncio.to_thread(_begun, target, begin)
    except (TacitaError, compiled.native.TacitaError) as error:
        print(f"not held: {error}", flush=True)
        return
    finally:
        target.tries += 1
    await asyncio.sleep(seconds)
    party.close()


def _begun(target: Target, begin: Callable[[Party], None]) -> Party:
    party = dial(target.host, target.port, trust=target.certificate, timeout=300.0, threads=1)
    begin(party)
    return party


def _fetch(party: Party) -> None:
    party.send(handshake.CLIENT_HELLO.pack(handshake.MAGIC, handshake.VERSION))
    party.receive(handshake.SERVER_HELLO.size)
    party.send(handshake.SEND)


def _ask(party: Party) -> None:
    with tempfile.TemporaryDirectory() as folder:
        TwoPartyClient(party, PublicCache(Path(folder)))
    handshake.ask(party)


KINDS: dict[str, tuple[int, Caller]] = {
    "silent": (200, idle),
    "tls": (200, partial(sender, count=0)),
    "senders": (200, sender),
    "readers": (200, reader),
    "stalled": (3, stalled),
}
