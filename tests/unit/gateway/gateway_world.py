"""A gateway over two-party servers without TLS, so that a tap on the wire between them sees what a server
sees: an encoder, a cross-encoder and a decoder with random weights, behind one address."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import uvicorn
from random_checkpoint import make_random_checkpoint
from tiny_decoders import llama

import tacita
from tacita.checkpoint import Checkpoint
from tacita.client.connected import Connected, at_port
from tacita.client.offers import choose
from tacita.client.service import Session
from tacita.errors import PeerError
from tacita.gateway.app import Gateway, app_of
from tacita.gateway.guard import Guard
from tacita.plans.wire import Models
from tacita.schemes.base import silent
from tacita.texts.embedding import Embedder
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Listener, Party, dial, share_threads
from tacita.two_party.server import TwoPartyServer

HOST, LOOK, SILENCE, SECONDS = "127.0.0.1", 0.1, 600.0, 600.0
TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "a very bad plot"]
PAIRS = [(one, other) for one in TEXTS for other in TEXTS[:2]]
MODELS = {
    "encoder": make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True, seed=7),
    "ranker": make_random_checkpoint(layers=1, labels=("relevance",)),
    "decoder": llama(layers=1),
}


@dataclass
class Tap:
    """A wire to a port that keeps what passes, both directions in one. sent: all of it."""

    target: int
    sent: bytearray = field(default_factory=bytearray)
    closing: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listener = socket.create_server((HOST, 0))
        self.closing.append(self.listener)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self.closing:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection((HOST, self.target))
                self.closing += [near, far]
                for end in (near, far):  # a round of small messages would wait 40 ms for each acknowledgement
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(1 << 16):
                self.sent += data
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)


@dataclass
class World:
    """A gateway, its log, and what is behind it: the taps and plans by model."""

    url: str
    wires: dict[str, Tap] = field(repr=False)
    log: list[str]
    plans: dict[str, TwoPartyPlan]

    def crossed(self) -> bytes:
        """Returns all that passed between the gateway and its servers."""
        return b"".join(bytes(wire.sent) for wire in self.wires.values())


def plan_of(model: Checkpoint) -> TwoPartyPlan:
    texts: Any = PAIRS if model.config.labels else TEXTS
    plan = tacita.plan(model, scheme="bumblebee", tokens=24, texts=texts)
    assert isinstance(plan, TwoPartyPlan)
    return plan


@contextmanager
def serving(plan: TwoPartyPlan, model: Checkpoint) -> Iterator[int]:
    """Yields the port of a two-party server without TLS."""
    share_threads(1)
    server, over = TwoPartyServer(plan, model), threading.Event()
    listener = Listener(HOST, 0, insecure_plain=True)

    def accept() -> None:
        while not over.is_set():
            if arrival := listener.next(LOOK):
                threading.Thread(target=serve, args=(arrival,), daemon=True).start()

    def serve(arrival: Any) -> None:
        with suppress(PeerError):
            server.session(arrival.secure(server.limits.handshake, SILENCE))
        arrival.close()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listener.port
    finally:
        over.set()
        accepting.join()


def dialled(port: int) -> Party:
    return dial(HOST, port, insecure_plain=True, timeout=SILENCE, threads=1)


@contextmanager
def world(models: Mapping[str, Checkpoint] = MODELS, **limits: Any) -> Iterator[World]:
    """Yields a gateway that listens. models: by name. limits: of `Guard`."""
    wires, plans, sessions, log = (
        dict[str, Tap](),
        dict[str, TwoPartyPlan](),
        dict[str, Connected](),
        list[str](),
    )
    with ExitStack() as stack:
        offers = []
        for name, model in models.items():
            plans[name] = plan_of(model)
            wires[name] = tap = Tap(stack.enter_context(serving(plans[name], model)))
            stack.callback(tap.close)
            sessions[name], listing = at_port(partial(dialled, tap.port))
            offers.append(listing.models[0].model_copy(update={"name": name}))
        offered = listing.model_copy(update={"models": tuple(offers)})

        async def listed() -> Models:
            return offered

        async def opened(verbs: Sequence[str], model: str | None, scheme: str | None, **_: Any) -> Session:
            return sessions[choose(offered, verbs, model, scheme)[0].name]

        app = app_of(Gateway(listed, opened, None, silent))
        app.add_middleware(Guard, log=log.append, **{"calls": 4, **limits})
        url = stack.enter_context(running(app, [*sessions.values()]))
        yield World(url, wires, log, plans)


@contextmanager
def running(app: Any, sessions: Sequence[Connected]) -> Iterator[str]:
    """Yields the URL of an app on a loop of its own, on which the sessions are closed at last."""
    bound, up = socket.create_server((HOST, 0)), threading.Event()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))

    async def serve() -> None:
        asyncio.get_running_loop().call_soon(up.set)
        await server.serve(sockets=[bound])
        for session in sessions:
            await session.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert up.wait(SECONDS)
    try:
        yield f"http://{HOST}:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        bound.close()


def vector_of(plan: TwoPartyPlan, model: Embedder, text: str) -> np.ndarray:
    """Returns the float model's embedding, of length 1."""
    values = tacita.api.reference_logits(plan, model, text)  # type: ignore[arg-type]
    return np.asarray(values / np.linalg.norm(values))
