"""The relay of the two-party port: bytes both ways, slow and silent ends, and the last words of a session."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tacita.errors import RefusedError
from tacita.server.connections import bound_socket, listen
from tacita.server.sessions.listener import AddressClients, SessionLimits, SessionListener, tls_context
from tacita.server.sessions.messages import Client
from tacita.two_party.protocol.party import Identity, new_identity

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

SECONDS = 60.0  # after which a test gives up
MUCH = 8 << 20  # bytes, more than all sockets between hold
PIECE = 64 << 10
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Sessions:
    """Opens sessions of which the test holds the other end."""

    def __init__(self) -> None:
        self.far, self.refusing = asyncio.Queue[socket.socket](), False

    async def open(self, client: Client) -> socket.socket:
        if self.refusing:
            raise RefusedError("no process", hint="")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.far.put_nowait(theirs)
        return ours


@pytest.fixture(params=["tcp", "tls"])
def identity(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Identity | None]:
    yield new_identity(tmp_path / "pem", ["127.0.0.1"]) if request.param == "tls" else None


def meet(
    identity: Identity | None,
    work: Callable[[Ends, Ends], Awaitable[None]],
    *,
    patience: float = SECONDS,
    refusing: bool = False,
) -> None:
    """Has a client and a session at the two ends of a relay."""

    async def run() -> None:
        sessions, limits = Sessions(), SessionLimits()
        sessions.refusing = refusing
        clients = AddressClients("m", limits)
        port = SessionListener(sessions, limits.pending(1000), clients, patience)  # type: ignore[arg-type]
        trusted = ssl.create_default_context(cafile=identity.certificate) if identity else None
        with bound_socket("127.0.0.1", 0) as bound:
            acceptor = port.acceptor(bound, tls_context(identity, None) if identity else None)
            listen(bound)
            acceptor.start()
            client = await asyncio.open_connection(*bound.getsockname(), ssl=trusted)
            session = client if refusing else await asyncio.open_connection(sock=await sessions.far.get())
            await work(client, session)
            for _, writer in (client, session):
                writer.transport.abort()
            acceptor.close()
            await acceptor.wait_closed()

    asyncio.run(asyncio.wait_for(run(), SECONDS))


async def send(end: Ends, data: bytes) -> None:
    """In pieces: asyncio's TLS takes any number of bytes at once."""
    for begin in range(0, len(data), PIECE):
        end[1].write(data[begin : begin + PIECE])
        await end[1].drain()


def test_megabytes_go_both_ways_at_once(identity: Identity | None) -> None:
    async def work(client: Ends, session: Ends) -> None:
        up, down = os.urandom(MUCH), os.urandom(MUCH)
        sending = asyncio.gather(send(client, up), send(session, down))
        came = await asyncio.gather(session[0].readexactly(MUCH), client[0].readexactly(MUCH))
        await sending
        assert came == [up, down]

    meet(identity, work)


def test_what_a_session_said_last_arrives_though_the_client_goes_on_sending(
    identity: Identity | None,
) -> None:
    async def work(client: Ends, session: Ends) -> None:
        session[1].write(b"no" * 50_000)
        session[1].close()
        await session[1].wait_closed()
        client[1].write(b"more")
        assert await client[0].readexactly(100_000) == b"no" * 50_000

    meet(identity, work)


@pytest.mark.parametrize("first", ["client", "session"])
def test_the_end_of_one_is_the_end_of_the_other(identity: Identity | None, first: str) -> None:
    async def work(client: Ends, session: Ends) -> None:
        leaving, staying = (client, session) if first == "client" else (session, client)
        await send(leaving, b"last")
        leaving[1].close()
        assert await staying[0].read() == b"last"

    meet(identity, work)


@pytest.mark.parametrize("slow", ["client", "session"])
def test_whoever_does_not_read_holds_the_other_back(identity: Identity | None, slow: str) -> None:
    async def work(client: Ends, session: Ends) -> None:
        silent, talking = (client, session) if slow == "client" else (session, client)
        silent[1].transport.pause_reading()  # type: ignore[attr-defined]
        sending = asyncio.create_task(send(talking, bytes(4 * MUCH)))
        await asyncio.sleep(0.1)
        assert not sending.done()
        silent[1].transport.resume_reading()  # type: ignore[attr-defined]
        assert await silent[0].readexactly(4 * MUCH) == bytes(4 * MUCH)
        await sending

    meet(identity, work)


def test_a_client_that_reads_nothing_for_too_long_is_given_up(identity: Identity | None) -> None:
    async def work(client: Ends, session: Ends) -> None:
        client[1].transport.pause_reading()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionError):
            while True:
                await send(session, bytes(MUCH))

    meet(identity, work, patience=0.3)


def test_a_client_is_sent_away_while_there_is_no_process(identity: Identity | None) -> None:
    async def work(client: Ends, session: Ends) -> None:
        with suppress(ConnectionResetError):
            assert await client[0].read() == b""

    meet(identity, work, refusing=True)
