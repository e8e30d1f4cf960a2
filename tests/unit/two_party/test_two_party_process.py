"""Sessions in a process of their own: two at a time, a process that is killed, one whose parent is."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, WebSocket
from hosted_world import SECONDS, Book, asked, asked_of, make_spec, run, running
from service import TEXTS
from websockets_world import TOKEN, Known

from tacita.client.http.websocket import dial
from tacita.client.store import PublicCache
from tacita.errors import GoneError, PeerError, RefusedError, TacitaError
from tacita.server.child import Ready, decode
from tacita.server.http.two_party import UVICORN, router
from tacita.server.sessions import messages
from tacita.server.sessions.messages import SessionSpec
from tacita.server.sessions.supervisor import Sessions
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.protocol.party import Party

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoPartyArrival"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SessionSpec:
    return make_spec(tmp_path_factory.mktemp("spec"))


def pid_of(sessions: Sessions) -> int:
    assert sessions.process.child is not None
    return sessions.process.child.pid


def test_clients_that_leave_or_talk_otherwise_are_told_by_their_endings(spec: SessionSpec) -> None:
    async def work() -> None:
        async with running(spec) as (sessions, book):
            (await sessions.open(book.client("leaver"))).close()
            stranger = await sessions.open(book.client("stranger"))
            stranger.setblocking(True)
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            ended = {each.client: each for each in await book.wait(2)}
            stranger.close()
        assert ended["leaver"].ending == "broken off" and ended["stranger"].ending == "damaged"
        assert {each.texts for each in ended.values()} == {0}

    run(work)


def test_a_process_that_is_killed_is_told_and_started_again(spec: SessionSpec, tmp_path: Path) -> None:
    async def work() -> None:
        async with running(spec) as (sessions, book):
            first, end = pid_of(sessions), await sessions.open(book.client("alice"))
            os.kill(first, signal.SIGKILL)
            assert (await book.wait(1))[0].ending == "crashed"
            end.setblocking(True)
            assert end.recv(1) == b"", "the relay sees the end at once"
            end.close()
            again = await sessions.open(book.client("alice"))  # waits for the new one
            assert pid_of(sessions) != first
            assert await asyncio.to_thread(asked, again, tmp_path)
            assert [each.ending for each in await book.wait(2)] == ["crashed", "answered"]
            os.kill(pid_of(sessions), 0)

    run(work)


def test_draining_waits_for_sessions_and_stopping_ends_them(spec: SessionSpec, tmp_path: Path) -> None:
    async def work() -> None:
        async with running(spec) as (sessions, book):
            answered, silent = [await sessions.open(book.client(name)) for name in ("alice", "bob")]
            asking = asyncio.create_task(asyncio.to_thread(asked, answered, tmp_path))
            await book.wait(1)
            await sessions.drain(0.05)
            with pytest.raises(RefusedError, match="is ending"):
                await sessions.open(book.client("carol"))
            assert sessions.count() == 1
            process = sessions.process.child._process
            await sessions.stop()
            assert process.returncode is not None
            assert [(each.client, each.ending) for each in book.ended] == [
                ("alice", "answered"),
                ("bob", "stopped"),
            ]
            silent.setblocking(True)
            assert silent.recv(1) == b"" and await asking
            silent.close()

    run(work)


def test_draining_without_sessions_does_not_wait(spec: SessionSpec) -> None:
    async def work() -> None:
        async with running(spec) as (sessions, _), asyncio.timeout(SECONDS):
            await sessions.drain(1e6)

    run(work)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sha256": "0" * 64}, "not 000000000000"),
        ({"plan": Path("/nowhere/plan.json")}, "cannot be read"),
        ({"folder": Path("/nowhere")}, "nowhere"),
    ],
)
def test_a_lane_that_cannot_be_served_says_why(spec: SessionSpec, changes: dict[str, Any], told: str) -> None:
    async def work() -> None:
        with pytest.raises(TacitaError, match=told):
            await Sessions(replace(spec, **changes)).start()

    run(work)


def test_a_text_over_a_websocket_to_the_process_and_its_crash(spec: SessionSpec, tmp_path: Path) -> None:
    """Route, relay, supervisor and process together; the client is told at once."""

    async def work() -> None:
        async with running(spec) as (sessions, book), serving(sessions, book) as dialled:
            assert await asyncio.to_thread(asked_of, dialled, tmp_path)
            assert (await book.wait(1))[0].ending == "answered"
            party = await asyncio.to_thread(dialled)
            client = await asyncio.to_thread(TwoPartyClient, party, PublicCache(tmp_path))
            for text in TEXTS[:2]:  # when the second is permitted the first was told
                await asyncio.to_thread(client.classify, text)
            os.kill(pid_of(sessions), signal.SIGKILL)
            with pytest.raises(GoneError):
                await asyncio.to_thread(client.classify, TEXTS[0])
            await asyncio.to_thread(party.close)
            crashed = (await book.wait(2))[1]
            assert crashed.texts in (1, 2) and crashed.ending == "crashed" and crashed.bytes_sent > 0
            assert await asyncio.to_thread(asked_of, dialled, tmp_path)

    run(work)


@asynccontextmanager
async def serving(sessions: Sessions, book: Book) -> AsyncIterator[Callable[[], Party]]:
    """A server of the route in this event loop; how it is dialled."""

    async def permitted(websocket: WebSocket, model: str) -> Known:
        return book.client()

    app = FastAPI()
    app.include_router(router(lambda model, client: sessions.open(client), permitted))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", **UVICORN))
        task = asyncio.create_task(server.serve([listening]))
        url = f"ws://127.0.0.1:{listening.getsockname()[1]}/v1/two-party?model=m"
        try:
            yield lambda: dial(url, token=TOKEN, context=None, timeout=SECONDS, threads=1)
        finally:
            server.should_exit = True
            await task


PARENT = """
import asyncio, json, sys
from pathlib import Path
from types import SimpleNamespace
from tacita.server.sessions.messages import SessionSpec
from tacita.server.http.two_party import UVICORN, router
from tacita.server.sessions.supervisor import Sessions

async def main():
    said = json.loads(sys.argv[1])
    spec = SessionSpec("m", Path(said["folder"]), Path(said["plan"]), 1, 2, said["sha256"])
    sessions = Sessions(spec)
    await sessions.start()
    await sessions.open(SimpleNamespace(name="alice", places=lambda sessions: 1))
    print(sessions.process.child.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_no_orphan_is_left_of_a_parent_that_is_killed(spec: SessionSpec) -> None:
    said = json.dumps({"folder": str(spec.folder), "plan": str(spec.plan), "sha256": spec.sha256})
    assert ended_with_its_parent([sys.executable, "-c", PARENT, said])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such signal")
def test_one_that_does_not_listen_is_killed_with_its_parent() -> None:
    """As while it loads a model."""
    deaf = "import os, signal; from tacita.server.child import die_with_parent; die_with_parent()"
    child = f"{deaf}; print(os.getpid(), flush=True); signal.pause()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert ended_with_its_parent([sys.executable, "-c", parent])


def ended_with_its_parent(command: list[str]) -> bool:
    """Whether the process whose number this one says is over once it was killed."""
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with parent:
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        return bool(select.select([child], [], [], SECONDS)[0])
    finally:
        os.close(child)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"no",
        b"\xff\x00",
        b'{"kind": "ready", "seconds": 1.0, "more": 1}',
        b'{"kind": "finished", "id": -1, "ending": "x"}',
        b'{"kind": "finished", "id": "0", "ending": "x"}',
        b'{"kind": "finished", "id": 0, "ending": "' + b"x" * 41 + b'"}',
        b'{"kind": "so far", "id": 0, "texts": -1, "tokens": 0, "bytes_sent": 0, '
        b'"bytes_received": 0, "over": false}',
        b'{"kind": "so far", "id": 0, "texts": 1.5, "tokens": 0, "bytes_sent": 0, '
        b'"bytes_received": 0, "over": false}',
        b'{"kind": "wanted", "id": 0, "texts": 1, "tokens": 1, "bytes": 1, "seconds": NaN}',
        b'{"kind": "wanted", "id": 0, "texts": 2, "tokens": 1, "bytes": 1, "seconds": 1.0}',
        b'{"kind": "open", "id": 0, "places": 1, "client": "' + b"x" * 201 + b'"}',
        b"[" * 10_000,
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(PeerError, match="no message"):
        decode(messages.Order | messages.Reply | Ready, data)
