"""Seconds of a text over the service's WebSocket beside bare TLS, both on loopback and text by text in turn.

    python evaluation/two_party_websocket.py [--model DIR] [--tokens 128] [--runs 25] [--json F]

Two servers of the same plan wait in processes of their own: the one that `tacita serve` has, and uvicorn with
the two-party route, whose sessions run in a third process. One client asks both the same text, the one that
begins changing each time; the first text of each, which sets the session up, is not counted. Prints medians,
the median of the ratios pair by pair (which other work on the machine disturbs less), and what the relay's
process and the client's computed: processor seconds a text, and those that a megabyte costs more.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacita import api
from tacita.client.public_cache import PublicCache
from tacita.errors import GoneError
from tacita.two_party.admission import SessionLimiter, SessionLimits
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.protocol.party import Identity, Listener, Party, dial, new_identity
from tacita.two_party.reception import Reception, accept_until
from tacita.two_party.server import TwoPartyServer

HOST, TEXT, SILENCE = "127.0.0.1", "a film of quiet beauty", 300.0


@dataclass(frozen=True)
class Place:
    """What both servers read. model: as given."""

    folder: Path
    model: str

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def identity(self) -> Identity:
        return Identity(self.folder / "pem" / "certificate.pem", self.folder / "pem" / "key.pem")


@dataclass(frozen=True)
class Spent:
    """Of one text: seconds, processor seconds of this process, of the relay's, bytes both ways, rounds."""

    seconds: float
    own: float
    relay: float
    bytes: float
    rounds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=str(api.DEFAULT_MODEL))
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", nargs=2, metavar=("HOW", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return SERVERS[given.serve[0]](Place(Path(given.serve[1]), given.model))
    found = json.dumps(measured(given.model, given.tokens, given.runs), indent=1)
    print(found)
    if given.json:
        given.json.write_text(found + "\n")


def measured(model: str, tokens: int, runs: int) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as held:
        place = Place(Path(folder), model)
        new_identity(place.folder / "pem", [HOST])
        place.plan.write_bytes(api.plan(api.load(model), scheme="bumblebee", tokens=tokens).to_bytes())
        _, bare = held.enter_context(serving("bare", place))
        relay, port = held.enter_context(serving("websocket", place))
        ways = {
            "bare": Way(lambda: dial(HOST, bare, trust=place.identity.certificate, timeout=SILENCE)),
            "websocket": Way(lambda: over_websocket(port, place)),
        }
        spent: dict[str, list[Spent]] = {way: [] for way in ways}
        for run in range(runs):
            for way in sorted(ways, reverse=bool(run % 2)):
                spent[way].append(ways[way].asked(relay))
        for way in ways.values():
            way.end()
    return {
        "model": Path(model).name,
        "tokens": tokens,
        "runs": runs,
        **figures(spent["bare"], spent["websocket"]),
    }


def figures(bare: list[Spent], websocket: list[Spent]) -> dict[str, Any]:
    """Medians; megabytes are of 10^6 bytes, both directions together."""
    pairs = list(zip(bare, websocket, strict=True))
    own = statistics.median(b.own - a.own for a, b in pairs)
    relay = statistics.median(each.relay for each in websocket)
    megabytes = websocket[0].bytes / 1e6
    return {
        "seconds": {
            "bare": statistics.median(each.seconds for each in bare),
            "websocket": statistics.median(each.seconds for each in websocket),
        },
        "ratio": statistics.median(b.seconds / a.seconds for a, b in pairs),
        "megabytes": megabytes,
        "rounds": websocket[0].rounds,
        "relay_cpu_seconds": relay,
        "client_cpu_seconds_more": own,
        "cpu_ms_more_a_megabyte": 1e3 * (relay + own) / megabytes,
    }


@dataclass
class Way:
    """A client's session, begun again when the server has ended it: between two texts it waits for 30 s,
    which the other way may take on a machine that is busy."""

    dialled: Callable[[], Party]
    client: TwoPartyClient | None = None

    def asked(self, relay: int) -> Spent:
        """One text, the set-up of a session apart."""
        while True:
            try:
                client = self.client = self.client or self._begun()
                return spent_on(client, relay)
            except GoneError:
                self.end()

    def end(self) -> None:
        """Hangs up."""
        if self.client is not None:
            self.client.party.close()
        self.client = None

    def _begun(self) -> TwoPartyClient:
        with tempfile.TemporaryDirectory() as cache:
            client = TwoPartyClient(self.dialled(), PublicCache(Path(cache)))
        client.classify(TEXT)
        return client


def over_websocket(port: int, place: Place) -> Party:
    from tacita.client.websocket import dial as dialled

    trusted = ssl.create_default_context(cafile=place.identity.certificate)
    url = f"wss://{HOST}:{port}/v1/two-party?model=m"
    return dialled(url, token="none", ssl_context=trusted, timeout=SILENCE)


def spent_on(client: TwoPartyClient, relay: int) -> Spent:
    """One text."""
    before = figures_now(client, relay)
    client.classify(TEXT)
    return Spent(*(b - a for a, b in zip(before, figures_now(client, relay), strict=True)))


def figures_now(client: TwoPartyClient, relay: int) -> tuple[float, ...]:
    """In the order of `Spent`."""
    cost = client.party.cost
    both = cost["bytes_sent"] + cost["bytes_received"]
    return time.monotonic(), time.process_time(), processor(relay), both, cost["rounds"]


def processor(process: int) -> float:
    """Seconds that another process computed, by Linux."""
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(how: str, place: Place) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its number and port."""
    command = [sys.executable, __file__, "--serve", how, str(place.folder), "--model", place.model]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


def bare(place: Place) -> None:
    """As `tacita serve`."""
    server = TwoPartyServer(parse_plan(place.plan.read_bytes()), api.load(place.model))
    listener = Listener(HOST, 0, identity=place.identity)
    print(listener.port, flush=True)
    reception = Reception(server, SessionLimiter(SessionLimits()), SILENCE, lambda visit: None)
    accept_until(lambda: False, listener, reception.receive, lambda error: None)


def websocket(place: Place) -> None:
    """As a service: the route, the relay, and the process of the sessions."""
    asyncio.run(_websocket(place))


class Anybody:
    """A `sessions.spec.Guest` who may have everything."""

    name = "anybody"

    def admit(self, used: Any, text: Any) -> None:
        """Takes every text."""

    def note(self, used: Any) -> bool:
        """Goes on."""
        return True

    def settle(self, used: Any) -> None:
        """Owes nothing."""

    def ended(self, session: Any) -> None:
        """Is not written down."""


async def _websocket(place: Place) -> None:
    import uvicorn
    from fastapi import FastAPI

    from tacita.server.sessions.route import router
    from tacita.server.sessions.spec import UVICORN, SessionSpec
    from tacita.server.sessions.supervisor import Sessions

    plan = parse_plan(place.plan.read_bytes())
    sessions = Sessions(SessionSpec("m", Path(place.model), place.plan, 0, 4, plan.hash))
    await sessions.start()
    app = FastAPI()

    async def anybody(websocket: Any, model: str) -> Any:
        return Anybody()

    app.include_router(router(lambda model, guest: sessions.open(guest), anybody))
    own = place.identity
    config = uvicorn.Config(
        app, log_config=None, ssl_certfile=own.certificate, ssl_keyfile=own.key, **UVICORN
    )
    listening = socket.create_server((HOST, 0))
    print(listening.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve([listening])


SERVERS: dict[str, Callable[[Place], None]] = {"bare": bare, "websocket": websocket}

if __name__ == "__main__":
    main()
