"""A service of the two-party route alone, by a real uvicorn in a thread; tests hold the ends of sessions."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, WebSocket
from websockets.sync.client import ClientConnection, connect

from tacita.client.http.websocket import dial
from tacita.plans.wire import FRAME_BYTES
from tacita.server.http.problems import Fault
from tacita.server.http.two_party import UVICORN, router
from tacita.server.sessions.messages import Client, Ended, Used
from tacita.two_party.protocol.party import Identity, Party
from tacita.two_party.protocol.refusal import Refusal

SECONDS = 900.0  # after which a test gives up
TOKEN = "tct_0123456789abcdef"
DENIED = {"unknown": 404, "forbidden": 403, "often": 429}


UPGRADE = (
    "GET /v1/two-party?model=m HTTP/1.1",
    "Host: 127.0.0.1:{port}",
    f"Authorization: Bearer {TOKEN}",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "",
    "",
)


@dataclass(frozen=True)
class Known:
    """A client who may have everything. told: of its session's end."""

    name: str
    told: Callable[[Ended], None] = lambda ended: None

    def places(self, sessions: int) -> int:
        return max(1, sessions - 1)

    def admit(self, used: Used, asked: Used) -> Refusal | None:
        return None

    def note(self, used: Used) -> bool:
        return True

    def settle(self, used: Used) -> None:
        pass

    def ended(self, session: Ended) -> None:
        self.told(session)


async def permitted(websocket: WebSocket, model: str) -> Known:
    if websocket.headers.get("authorization") != f"Bearer {TOKEN}":
        raise Fault(401, "no-token", "no such token", "tacita token", {"WWW-Authenticate": "Bearer"})
    if model in DENIED:
        headers = {"Retry-After": "7"} if model == "often" else {}
        raise Fault(DENIED[model], "no", f"not {model}", "\x1b[31mred", headers)
    return Known("alice")


@dataclass
class World:
    """port: of the server. ends: the far ends of sessions, as they were opened; refusing: raised instead.
    every: all ends, which are closed with the server even where a test failed."""

    port: int
    identity: Identity | None
    ends: queue.Queue[socket.socket] = field(default_factory=queue.Queue)
    refusing: Exception | None = None
    every: list[socket.socket] = field(default_factory=list)

    async def open(self, model: str, client: Client) -> socket.socket:
        if self.refusing:
            raise self.refusing
        assert (model, client.name) == ("m", "alice")
        ours, theirs = socket.socketpair()
        theirs.settimeout(SECONDS)
        self.ends.put(theirs)
        self.every.append(theirs)
        return ours

    def end(self) -> socket.socket:
        """That of the session which was opened last."""
        return self.ends.get(timeout=SECONDS)

    @property
    def context(self) -> ssl.SSLContext | None:
        """Trusts the server's certificate alone."""
        if self.identity is None:
            return None
        return ssl.create_default_context(cafile=self.identity.certificate)

    def url(self, model: str = "m") -> str:
        scheme = "wss" if self.identity else "ws"
        return f"{scheme}://127.0.0.1:{self.port}/v1/two-party?model={model}"

    def party(self, model: str = "m", token: str = TOKEN) -> Party:
        """As a client dials."""
        return dial(self.url(model), token=token, context=self.context, timeout=SECONDS, threads=1)

    @contextlib.contextmanager
    def bare(self, **more: Any) -> Iterator[ClientConnection]:
        """A WebSocket without the protocol."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        options = {"compression": None, "max_size": FRAME_BYTES, "ssl": self.context, "proxy": None} | more
        with connect(self.url(), additional_headers=headers, open_timeout=SECONDS, **options) as websocket:
            yield websocket

    @contextlib.contextmanager
    def silent(self) -> Iterator[socket.socket]:
        """A connection that is a WebSocket and reads nothing, without TLS."""
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 10)
            raw.settimeout(SECONDS)
            raw.connect(("127.0.0.1", self.port))
            raw.sendall("\r\n".join(UPGRADE).format(port=self.port).encode())
            yield raw


@contextlib.contextmanager
def world(identity: Identity | None = None, patience: float = SECONDS, **options: Any) -> Iterator[World]:
    """options: of uvicorn, where they are others than the service's."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)  # of each connection
    made = World(listening.getsockname()[1], identity)
    app = FastAPI()
    app.include_router(router(made.open, permitted, patience))
    if identity:
        options |= {"ssl_certfile": identity.certificate, "ssl_keyfile": identity.key}
    config = uvicorn.Config(app, log_config=None, lifespan="off", **{**UVICORN, **options})
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listening.close()
        for end in made.every:
            end.close()
    assert not thread.is_alive()
