"""A service as small as the page needs it: its files with their headers, the models, the program, and a
WebSocket whose bytes go to a two-party server of this process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import uvicorn
from fastapi import FastAPI, WebSocket
from fastapi.responses import FileResponse, Response

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.planning.request import PlanRequest
from tacita.texts.task import NEXT
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol.party import Listener
from tacita.two_party.server import Served, TwoPartyServer

SECONDS = 900.0  # after which a session is given up
CHUNK = 1 << 18
SHOWN = 8  # bytes of a message that the page shows in digits


@dataclass
class Model:
    """A model, listening; `visits` are the sessions that are over."""

    checkpoint: Checkpoint
    tokens: int
    listener: Listener = field(default_factory=lambda: Listener("127.0.0.1", 0, insecure_plain=True))
    visits: list[Served] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)  # ends of messages of the page's socket, in digits

    @cached_property
    def plan(self) -> TwoPartyPlan:
        """What both parties agree on."""
        return make_two_party_plan(self.checkpoint, PlanRequest(scheme="bumblebee", tokens=self.tokens))

    def serve(self, stopped: threading.Event) -> None:
        """Each client, one after another."""
        server = TwoPartyServer(self.plan, self.checkpoint)
        while not stopped.is_set():
            if arrival := self.listener.next(0.2):
                party = arrival.secure(within=SECONDS, timeout=SECONDS)
                self.visits.append(server.session(party))
                party.close()


@contextmanager
def serving(source: Path | Checkpoint, tokens: int) -> Iterator[Model]:
    """A model, or the one of this folder, in a thread."""
    checkpoint = source if isinstance(source, Checkpoint) else api.load(source)
    model, stopped = Model(checkpoint, tokens), threading.Event()
    thread = threading.Thread(target=model.serve, args=(stopped,))
    thread.start()
    try:
        yield model
    finally:
        stopped.set()
        thread.join(SECONDS)


@contextmanager
def service(model: Model, page: Path) -> Iterator[str]:
    """The service over HTTP. page: the folder that `make web` builds. Gives its address."""
    config = uvicorn.Config(app_of(model, page), port=0, log_level="warning", ws_max_size=1 << 20)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{_port(server)}/"
    finally:
        server.should_exit = True
        thread.join(SECONDS)


def _port(server: uvicorn.Server) -> int:
    waited = threading.Event()
    for _ in range(int(SECONDS / 0.05)):
        if server.started:
            return int(server.servers[0].sockets[0].getsockname()[1])
        waited.wait(0.05)
    raise TimeoutError("the service does not start")


def app_of(model: Model, page: Path) -> FastAPI:
    """See `service`."""
    app, headers = FastAPI(), json.loads((page / "headers.json").read_text())
    plan, sizes = model.plan, {"tokens": model.tokens, "seconds": 1.0, "traffic_bytes": 9_000_000}
    offer = {"scheme": "bumblebee", "connected": True, **sizes, "token_bytes": 0, "token_seconds": 0.5}
    offer |= {"token_bytes": 1_000_000} if plan.task == NEXT else {}
    listed = {"name": plan.name, "task": plan.task, "labels": list(plan.labels), "offers": [offer]}

    @app.get("/v1/models")
    def models() -> dict[str, object]:
        return {"models": [listed]}

    @app.websocket("/v1/two-party")
    async def two_party(websocket: WebSocket) -> None:
        offered = websocket.scope["subprotocols"]
        await websocket.accept(offered[0] if offered else None)
        await _relay(websocket, model)

    @app.get("/{name:path}")
    def file(name: str) -> Response:
        if (packed := page / f"{name}.br").is_file():
            return FileResponse(
                packed, media_type="application/wasm", headers=headers | {"Content-Encoding": "br"}
            )
        return FileResponse(page / (name or "index.html"), headers=headers)

    return app


async def _relay(websocket: WebSocket, model: Model) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", model.listener.port)

    async def up() -> None:
        while data := (await websocket.receive()).get("bytes"):
            model.passed.add(data[-SHOWN:].hex(" "))
            writer.write(data)
            await writer.drain()

    async def down() -> None:
        while data := await reader.read(CHUNK):
            model.passed.add(data[-SHOWN:].hex(" "))
            await websocket.send_bytes(data)

    tasks = [asyncio.create_task(each()) for each in (up, down)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    writer.close()
