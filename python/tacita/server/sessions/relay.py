"""Between a client's connection and the socket of its session: bytes go over as they come, in both directions
at the same time.

What waits here is one message up and one chunk down: whoever is slower holds the other back, as TCP would.
The channel's frames, limits and errors are the session's own; nothing is looked into.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

CHUNK = 256 << 10  # bytes taken from the session at once; the socket holds about as many
OVER, BROKEN = 1000, 1011  # RFC 6455, section 7.4.1
Code = int | None  # with which to close; None: the client is gone


class ByteStream(Protocol):
    """A client's connection: a WebSocket, or a stream."""

    async def receive(self) -> bytes | Code:
        """Returns the next bytes, or with which code to close. Raises nothing because of the client."""

    async def send(self, data: bytes) -> bool:
        """Sends bytes. Returns False for a client that is gone."""

    async def close(self, code: int) -> None:
        """Closes the connection once what was sent is read. Raises nothing because of the client."""


async def relay(client: ByteStream, session: socket.socket, patience: float) -> None:
    """Copies bytes both ways until either end is over; both are closed then. patience: seconds that a client
    may take to read what is sent at once. Raises nothing because of the client or the session."""
    session.setblocking(False)
    with session:
        up = asyncio.create_task(_up(client, session))
        down = asyncio.create_task(_down(client, session, patience))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            code = (up if up.done() else down).result()
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
    if code is not None:
        try:
            async with asyncio.timeout(patience):
                await client.close(code)
        except TimeoutError:
            return


async def _up(client: ByteStream, session: socket.socket) -> Code:
    """Copies what the client sends to the session. Returns the code with which to close."""
    loop, open_ = asyncio.get_running_loop(), True
    while isinstance(data := await client.receive(), bytes):
        if open_:
            try:
                await loop.sock_sendall(session, data)
            except OSError:  # the session is over; what it said last is on its way down, and ends this
                open_ = False
    return data


async def _down(client: ByteStream, session: socket.socket, patience: float) -> Code:
    """Copies the session's bytes to the client. Returns the code with which to close."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = await loop.sock_recv(session, CHUNK)
        except OSError:
            return OVER
        if not data:
            return OVER
        try:
            async with asyncio.timeout(patience):
                if not await client.send(data):
                    return None
        except TimeoutError:
            return BROKEN
