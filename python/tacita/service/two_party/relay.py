"""Between a WebSocket and the socket of its session: bytes go over as they come, in both directions at the
same time.

What waits here is one message up and one chunk down: whoever is slower holds the other back, as TCP would.
The channel's frames, limits and errors are the session's own; nothing is looked into.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from fastapi import WebSocket, WebSocketDisconnect

from tacita.protocol.http.wire import FRAME_BYTES

CHUNK = 256 << 10  # bytes taken from the session at once; the socket holds about as many
OVER, NOT_BINARY, TOO_LARGE, BROKEN = 1000, 1003, 1009, 1011  # RFC 6455, section 7.4.1
Code = int | None  # with which to close; None: the client is gone


async def relay(websocket: WebSocket, session: socket.socket, patience: float) -> None:
    """Until either end is over; both are closed then. patience: seconds that a client may take to read what
    is sent at once. websocket: accepted. Raises nothing because of the client or the session."""
    session.setblocking(False)
    with session:
        up = asyncio.create_task(_up(websocket, session))
        down = asyncio.create_task(_down(websocket, session, patience))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            code = (up if up.done() else down).result()
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
    if code is not None:
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):  # it left meanwhile
            async with asyncio.timeout(patience):
                await websocket.close(code)


async def _up(websocket: WebSocket, session: socket.socket) -> Code:
    """The client's messages."""
    loop, open_ = asyncio.get_running_loop(), True
    while True:
        message = await websocket.receive()
        if message["type"] != "websocket.receive":
            return None
        data: bytes | None = message.get("bytes")
        if data is None:
            return NOT_BINARY
        if len(data) > FRAME_BYTES:
            return TOO_LARGE
        if open_:
            try:
                await loop.sock_sendall(session, data)
            except OSError:  # the session is over; what it said last is on its way down, and ends this
                open_ = False


async def _down(websocket: WebSocket, session: socket.socket, patience: float) -> Code:
    """The session's bytes."""
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
                await websocket.send_bytes(data)
        except (WebSocketDisconnect, RuntimeError):
            return None
        except TimeoutError:
            return BROKEN
