"""Seconds of a text over the service's WebSocket beside bare TLS, both on loopback and text by text in turn.

    python -m bench two-party-websocket [--model DIR] [--tokens 128] [--runs 25] [--json F]

Two servers of the same plan wait in processes of their own: the one that `tacita serve` has, and uvicorn with
the two-party route, whose sessions run in a third process. One client asks both the same text, the one that
begins changing each time; the first text of each, which sets the session up, is not counted. Prints medians,
the median of the ratios pair by pair (which other work on the machine disturbs less), and what the relay's
process and the client's computed: processor seconds a text, and those that a megabyte costs more.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

from bench.options import ModelFolder, Tokens, emit
from bench.runs.service.processes import cpu_seconds
from tacita import api
from tacita.cli.options import TOKENS_DEFAULT, Json, option
from tacita.client.store import PublicCache
from tacita.errors import GoneError
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.protocol.party import Identity, Party, dial, new_identity

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
    """One text's seconds, processor seconds of this process and of the relay's, bytes both ways, rounds."""

    seconds: float
    own: float
    relay: float
    bytes: float
    rounds: float


def two_party_websocket(
    model: ModelFolder = api.DEFAULT_MODEL,
    tokens: Tokens = TOKENS_DEFAULT,
    runs: Annotated[int, option("--runs", help="Texts of each way, in turn.", min=1)] = 25,
    json: Json = None,
) -> None:
    """Time a text over the service's WebSocket beside bare TLS, in turn on loopback."""
    emit(measured(str(model), tokens, runs), json)


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
        for each in ways.values():
            each.end()
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
    return time.monotonic(), time.process_time(), cpu_seconds(relay, alone=True), both, cost["rounds"]


@contextlib.contextmanager
def serving(how: str, place: Place) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its number and port."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=SERVERS[how], args=(place, theirs))
    process.start()
    theirs.close()
    try:
        port: int = ours.recv()
        assert process.pid is not None
        yield process.pid, port
    finally:
        process.kill()
        process.join()


def bare(place: Place, told: Connection) -> None:
    """Serves as `tacita serve` does: its port, and the process of the sessions."""
    asyncio.run(_bare(place, told))


async def _bare(place: Place, told: Connection) -> None:
    from tacita.server.connections import bound_socket, listen
    from tacita.server.sessions.listener import AddressClients, SessionLimits, SessionListener, tls_context

    limits, sessions = SessionLimits(), await _sessions(place)
    listener = SessionListener(sessions, limits.pending(1000), AddressClients("m", limits).client)
    bound = bound_socket(HOST, 0)
    listen(bound)
    listener.acceptor(bound, tls_context(place.identity, None)).start()
    told.send(bound.getsockname()[1])
    await asyncio.Event().wait()


async def _sessions(place: Place) -> Any:
    from tacita.server.sessions.spec import SessionSpec
    from tacita.server.sessions.supervisor import Sessions

    plan = parse_plan(place.plan.read_bytes())
    sessions = Sessions(SessionSpec("m", Path(place.model), place.plan, 0, 4, plan.hash))
    await sessions.start()
    return sessions


def websocket(place: Place, told: Connection) -> None:
    """Serves as a service does: the route, the relay, and the process of the sessions."""
    asyncio.run(_websocket(place, told))


class Anybody:
    """A `sessions.spec.Client` who may have everything."""

    name = "anybody"

    def places(self, sessions: int) -> int:
        """May take all."""
        return sessions

    def admit(self, used: Any, text: Any) -> None:
        """Takes every text."""

    def note(self, used: Any) -> bool:
        """Goes on."""
        return True

    def settle(self, used: Any) -> None:
        """Owes nothing."""

    def ended(self, session: Any) -> None:
        """Is not written down."""


async def _websocket(place: Place, told: Connection) -> None:
    import uvicorn
    from fastapi import FastAPI

    from tacita.server.sessions.route import UVICORN, router

    sessions, app = await _sessions(place), FastAPI()

    async def anybody(websocket: Any, model: str) -> Any:
        return Anybody()

    app.include_router(router(lambda model, client: sessions.open(client), anybody))
    own = place.identity
    config = uvicorn.Config(
        app, log_config=None, ssl_certfile=own.certificate, ssl_keyfile=own.key, **UVICORN
    )
    listening = socket.create_server((HOST, 0))
    told.send(listening.getsockname()[1])
    await uvicorn.Server(config).serve([listening])


SERVERS: dict[str, Callable[[Place, Connection], None]] = {"bare": bare, "websocket": websocket}
