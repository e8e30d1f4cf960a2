"""The relay between WebSockets and sessions, behind a real server: hostile and slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from service import CHECKPOINT, TEXTS, make_server
from websockets.exceptions import ConnectionClosed
from websockets_world import SECONDS, World, world

from tacita.client.store import PublicCache
from tacita.errors import GoneError
from tacita.plans.wire import FRAME_BYTES
from tacita.server.http import two_party
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.protocol.party import new_identity, over_socket
from tacita.two_party.server import Served, TwoPartyServer

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoPartyArrival"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)

MOST_WAITING = 16 << 20  # bytes between two ends of which one does not read: sockets' and ours


@pytest.fixture(scope="module")
def plain() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(new_identity(tmp_path_factory.mktemp("pem") / "own", ["127.0.0.1"])) as made:
        yield made


def served(server: TwoPartyServer, end: socket.socket) -> Served:
    party = over_socket(end, client=False, timeout=SECONDS, threads=None)
    try:
        return server.session(party)
    finally:
        party.close()


def exactly(end: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count and (part := end.recv(min(1 << 20, count - len(data)))):
        data += part
    return bytes(data)


def filled(send: socket.socket) -> int:
    """Bytes that are taken until none are for a while."""
    send.settimeout(0.5)
    total = 0
    try:
        while total <= 4 * MOST_WAITING:
            total += send.send(bytes(64 << 10))
    except TimeoutError:
        pass
    send.settimeout(SECONDS)
    return total


@pytest.mark.parametrize("how", ["plain", "secured"])
def test_texts_are_answered(how: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server, made = make_server(), request.getfixturevalue(how)
    party = made.party()
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(served, server, made.end())
        client = TwoPartyClient(party, PublicCache(tmp_path))
        assert client.classify(TEXTS[0]).label in CHECKPOINT.config.labels
        client.end()
        party.close()
        assert serving.result(SECONDS) == Served(1, None)
    assert party.peer is None


@pytest.mark.parametrize("how", ["plain", "secured"])
def test_megabytes_go_both_ways_at_once(how: str, request: pytest.FixtureRequest) -> None:
    """More than all sockets between hold, before either side reads."""
    made = request.getfixturevalue(how)
    client = made.party()
    server = over_socket(made.end(), client=False, timeout=SECONDS, threads=1)
    up, down = os.urandom(24 << 20), os.urandom(24 << 20)
    client.send(up)
    server.send(down)
    assert server.receive(len(up)) == up
    assert client.receive(len(down)) == down
    client.close()
    server.close()


def test_what_a_session_said_last_arrives(plain: World) -> None:
    with plain.bare() as websocket:
        end = plain.end()
        end.sendall(b"no" * 100_000)
        end.close()
        said = b""
        with pytest.raises(ConnectionClosed) as caught:
            while True:
                said += websocket.recv(timeout=SECONDS)
    assert said == b"no" * 100_000
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 1000


def test_it_arrives_at_a_client_that_goes_on_sending(plain: World) -> None:
    """A refusal is said and the session over before the client looks."""
    with plain.silent() as raw:
        end = plain.end()
        end.sendall(b"no" * 50_000)
        end.close()
        for _ in range(10):
            raw.sendall(FRAME)
        said = bytearray()
        while not said.endswith(b"\x88\x02\x03\xe8"):  # the close of code 1000
            said += raw.recv(1 << 20)
    assert said.count(b"no") >= 50_000 - said.count(b"\x82")


# A masked binary message, whole and in two fragments with a ping between.
KEY = b"\x01\x02\x03\x04"
FRAME = b"\x82\x84" + KEY + b"lost"
WORD = bytes(a ^ b for a, b in zip(b"more", KEY, strict=True))
FRAGMENTS = b"\x02\x84" + KEY + WORD + b"\x89\x80" + KEY + b"\x80\x84" + KEY + WORD


@pytest.mark.parametrize("cut", [1, 3, 7, len(FRAGMENTS)])
def test_fragments_are_joined_wherever_the_network_cuts(plain: World, cut: int) -> None:
    with plain.silent() as raw:
        end = plain.end()
        for at in range(0, len(FRAGMENTS), cut):
            raw.sendall(FRAGMENTS[at : at + cut])
        assert exactly(end, 8) == b"moremore"
        said = b""
        while b"\x8a\x00" not in said:  # the answer to the ping
            said += raw.recv(1 << 10)
        end.close()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x82\x04more", 1002),  # no mask
        (b"\xc2\x84" + KEY + WORD, 1002),  # a reserved bit
        (b"\x83\x84" + KEY + WORD, 1002),  # an unknown kind
        (b"\x80\x84" + KEY + WORD, 1002),  # the rest of nothing
        (b"\x02\x84" + KEY + WORD + b"\x82\x84" + KEY + WORD, 1002),  # another before the rest
        (b"\x89\xfe\x00\x7e" + KEY + bytes(126), 1002),  # a long ping
        (b"\x81\x84" + KEY + WORD, 1003),
        (b"\x82\xff" + (FRAME_BYTES + 1).to_bytes(8, "big") + KEY, 1009),
        (
            b"\x02\xff"
            + FRAME_BYTES.to_bytes(8, "big")
            + KEY
            + bytes(FRAME_BYTES)
            + b"\x80\x81"
            + KEY
            + b"x",
            1009,
        ),
        (b"\x82\xff" + b"\xff" * 8 + KEY, 1009),
    ],
)
def test_what_breaks_the_protocol_of_frames_ends_the_session(plain: World, sent: bytes, code: int) -> None:
    with plain.silent() as raw, ThreadPoolExecutor(1) as pool:
        end = plain.end()
        taken = pool.submit(exactly, end, 4 * FRAME_BYTES)
        raw.sendall(sent)
        goodbye, said = b"\x88\x02" + code.to_bytes(2, "big"), b""
        while goodbye not in said:
            part = raw.recv(1 << 10)
            assert part, said[-80:]
            said += part
        raw.close()
        assert len(taken.result(SECONDS)) <= FRAME_BYTES
        end.close()


@pytest.mark.parametrize("own", [FRAME_BYTES, 4 * FRAME_BYTES])
def test_a_message_that_is_too_large_ends_the_session(own: int) -> None:
    """Whether uvicorn sees it or the relay. uvicorn hangs up before it has read all: its reset may break the
    client's sending, and overtake the reason."""
    with world(ws_max_size=own) as made, made.bare() as websocket:
        end = made.end()
        websocket.send(bytes(FRAME_BYTES))
        assert exactly(end, FRAME_BYTES) == bytes(FRAME_BYTES)
        with contextlib.suppress(ConnectionClosed):
            websocket.send(bytes(FRAME_BYTES + 1))
        with pytest.raises(ConnectionClosed) as caught:
            websocket.recv(timeout=SECONDS)
        reason = caught.value.rcvd
        assert reason.code == 1009 if reason else own == FRAME_BYTES
        assert end.recv(1) == b"", "nothing of it went on"
        end.close()


def test_a_text_message_ends_the_session(plain: World) -> None:
    with plain.bare() as websocket:
        end = plain.end()
        websocket.send("hello")
        with pytest.raises(ConnectionClosed) as caught:
            websocket.recv(timeout=SECONDS)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 1003
        assert end.recv(1) == b""
        end.close()


@pytest.mark.parametrize("how", ["plain", "secured"])
def test_a_client_that_is_gone_in_mid_text_ends_the_session(
    how: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made, server = request.getfixturevalue(how), make_server()
    party = made.party()

    def leave(stage: str) -> None:
        if stage.startswith("layer0"):
            party.native.abort()

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(served, server, made.end())
        client = TwoPartyClient(party, PublicCache(tmp_path))
        with pytest.raises(GoneError):
            client.classify(TEXTS[0], leave)
        result = serving.result(SECONDS)
    assert isinstance(result.problem, GoneError) and result.texts == 0
    party.close()


def test_a_connection_that_breaks_ends_the_session(plain: World) -> None:
    """Without a word of goodbye."""
    with plain.bare() as websocket:
        end = plain.end()
        websocket.send(b"half")
        assert exactly(end, 4) == b"half"
        reset = struct.pack("ii", 1, 0)
        websocket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        websocket.socket.shutdown(socket.SHUT_RDWR)
        assert end.recv(1) == b""
        end.close()


def test_a_client_that_reads_nothing_holds_the_session_back(plain: World) -> None:
    party, end = plain.party(), plain.end()
    assert 0 < filled(end) < MOST_WAITING, "what waits must not grow with what is sent"
    party.close()
    end.close()


def test_a_client_that_reads_nothing_for_too_long_is_given_up() -> None:
    with world(patience=0.3) as made, made.silent() as client:
        end = made.end()
        with pytest.raises(ConnectionError):
            while True:
                end.sendall(bytes(FRAME_BYTES))
        end.close()
        assert client.fileno() != -1, "it never hung up"


def test_a_connection_that_the_application_is_through_with_is_not_kept() -> None:
    """It would be closed once the client had read everything, which it may never do."""

    class Stuck:
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    async def work() -> bool:
        loop = asyncio.get_running_loop()
        connection = object.__new__(two_party.BoundedWebSocket)
        connection.tasks, connection.loop = set(), loop
        connection.close_timeout, connection.transport = 0.0, Stuck()
        task = loop.create_task(asyncio.sleep(0))
        task.add_done_callback(connection.on_task_complete)
        await task
        over = loop.create_future()
        loop.call_later(0.01, over.set_result, None)
        await over
        return connection.transport.aborted

    assert asyncio.run(work())


def test_a_session_that_reads_nothing_holds_the_client_back(plain: World) -> None:
    with plain.bare() as websocket, ThreadPoolExecutor(1) as pool:
        end = plain.end()
        sending = pool.submit(lambda: [websocket.send(bytes(FRAME_BYTES)) for _ in range(64)])
        with pytest.raises(TimeoutError):
            sending.result(0.1)
        assert exactly(end, 64 * FRAME_BYTES) == bytes(64 * FRAME_BYTES)
        sending.result(SECONDS)
        end.close()


def test_pings_that_nobody_reads_the_answers_of_are_answered_for_a_while_only(
    plain: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_party, "MOST_UNREAD", 64 << 10)
    with plain.silent() as raw:
        end = plain.end()
        pings = (b"\x89\xfd" + bytes(4) + bytes(125)) * 100
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                raw.sendall(pings)
        assert end.recv(1) == b""
        end.close()
