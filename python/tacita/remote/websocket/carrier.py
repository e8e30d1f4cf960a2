"""The thread that carries bytes between a WebSocket and the engine's socket.

One event loop and two tasks, one for each direction, of which neither waits for the other: a session sends
and receives megabytes at the same time. (The package's own threads cannot: there a send that waits for the
server holds back what the server sends.) What waits here is a message each way.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tacita.protocol.http.wire import FRAME_BYTES
from tacita.remote.websocket.refusals import CONNECTING, refusal
from tacita.version import __version__

CHUNK = 256 << 10  # bytes taken from the engine at once; the socket holds about as many
KEEPALIVE = 30.0  # seconds between pings
FAREWELL = 10.0  # seconds for the server to say goodbye


@dataclass(frozen=True)
class Target:
    """url: as the package takes it. host: as errors name it. context: None without TLS."""

    url: str
    host: str
    token: str | None
    context: ssl.SSLContext | None

    def __repr__(self) -> str:
        return f"Target({self.host})"


class Direct(connect):
    """Goes where it was told: a token is not for where a server sends on."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Takes a redirection as the refusal that it is."""
        return exc


@dataclass(frozen=True)
class Carrier:
    """A connection that is open, or was."""

    thread: threading.Thread

    @classmethod
    def started(cls, target: Target, engine: socket.socket, silence: float) -> Carrier:
        """Connects, and returns once the server has let this client in. engine: the other end of the
        engine's socket, closed by the carrier. Raises what `refusals.refusal` makes of a failure."""
        opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        given_up = threading.Event()
        arguments = target, engine, silence, opened, given_up.is_set
        thread = threading.Thread(target=_run, args=arguments, name="tacita-websocket", daemon=True)
        thread.start()
        try:
            opened.result()
        except BaseException:
            given_up.set()  # Ctrl-C: the thread closes what it may still open
            raise
        return cls(thread)

    def ended(self) -> None:
        """Waits until the last bytes have left, or the server has had its time to take them."""
        self.thread.join(2 * FAREWELL)


def _run(
    target: Target,
    engine: socket.socket,
    silence: float,
    opened: concurrent.futures.Future[None],
    given_up: Callable[[], bool],
) -> None:
    engine.setblocking(False)
    with engine:
        asyncio.run(_session(target, engine, silence, opened, given_up))


async def _session(
    target: Target,
    engine: socket.socket,
    silence: float,
    opened: concurrent.futures.Future[None],
    given_up: Callable[[], bool],
) -> None:
    try:
        websocket = await _connected(target, silence)
    except Exception as error:
        opened.set_exception(refusal(error, target.host))
        return
    opened.set_result(None)
    if given_up():
        websocket.transport.abort()
    else:
        await _carry(websocket, engine)


async def _connected(target: Target, silence: float) -> ClientConnection:
    return await Direct(
        target.url,
        additional_headers={"Authorization": f"Bearer {target.token}"} if target.token else {},
        user_agent_header=f"tacita/{__version__}",
        compression=None,
        open_timeout=min(CONNECTING, silence),
        close_timeout=FAREWELL,
        ping_interval=KEEPALIVE,
        ping_timeout=silence,  # a server that computes does not read
        max_size=FRAME_BYTES,
        max_queue=1,
        write_limit=CHUNK,
        ssl=target.context,
    )


async def _carry(websocket: ClientConnection, engine: socket.socket) -> None:
    """Until either end is over."""
    up, down = asyncio.create_task(_up(websocket, engine)), asyncio.create_task(_down(websocket, engine))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        if not down.done():
            await websocket.close()  # while `down` takes what still comes, without which it would not end
            await down
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        websocket.transport.abort()


async def _up(websocket: ClientConnection, engine: socket.socket) -> None:
    """The engine's bytes, until it is closed or the server is gone."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, WebSocketException):
        while data := await loop.sock_recv(engine, CHUNK):
            await websocket.send(data)


async def _down(websocket: ClientConnection, engine: socket.socket) -> None:
    """The server's messages, to the last that came before it was gone; once the engine is closed they are
    dropped. A text is not ours: the connection ends."""
    loop, open_ = asyncio.get_running_loop(), True
    with contextlib.suppress(WebSocketException):
        while isinstance(message := await websocket.recv(), bytes):
            if open_:
                try:
                    await loop.sock_sendall(engine, message)
                except OSError:
                    open_ = False
