"""Carries the two-party protocol over a WebSocket, and explains connections that fail, in the server's words
where it sends a problem document."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    WebSocketException,
)
from websockets.http11 import Response

from tacita.errors import InputError, LateError, PeerError, RefusedError, TacitaError
from tacita.plans.wire import FRAME_BYTES, PROBLEM, TOKEN, Problem
from tacita.two_party.protocol.party import TIMEOUT, Party, over_socket
from tacita.two_party.protocol.refusal import Reason
from tacita.version import __version__

CONNECTING = 30.0  # seconds for the connection, TLS and the upgrade
MOST_BODY = 64 << 10  # bytes of an answer that are looked at
REFUSALS: dict[int, tuple[str, str]] = {
    401: ("the server does not know this token", "ask its operator for one"),
    403: ("the server does not serve this client", "ask its operator"),
    429: ("the server answers no more of this client now", "try again later"),
    503: ("the server is full", "try again later"),
}
OTHERS: dict[int, tuple[str, str]] = {
    404: ("the server has no such model, or no two-party protocol", "ask it for its models"),
    426: ("the server wants another protocol", "is it a tacita server?"),
}


def refusal(error: Exception, host: str) -> TacitaError:
    """Returns the error to raise for a failed connection. host: without the token and the query."""
    match error:
        case InvalidStatus():
            return of_answer(error.response, host)
        case TimeoutError():
            return LateError(f"connect: {host} did not answer within {CONNECTING:.0f} s", hint="try again")
        case ssl.SSLCertVerificationError():
            return PeerError(
                f"connect: {host} is not trusted ({error.verify_message})",
                hint="trust its certificate, or dial it by a name that the certificate is for",
            )
        case InvalidURI() | InvalidProxy():
            return InputError(f"connect: {host} cannot be dialled so", hint="https://HOST[:PORT]/...")
        case OSError():
            return PeerError(f"connect: {host}: {error.strerror or 'no connection'}", hint="is it running?")
        case InvalidHandshake() | EOFError():
            return PeerError(
                f"connect: {host} does not speak our protocol", hint="is it a tacita server? look at the URL"
            )
    return PeerError(f"connect: {host}: {type(error).__name__}", hint="a defect: please report it")


def of_answer(response: Response, host: str) -> TacitaError:
    """Returns the error for a response that refused the upgrade."""
    status = response.status_code
    text, hint = (REFUSALS | OTHERS).get(
        status, (f"the server answered {status}", "is it a tacita server? look at the URL")
    )
    if problem := problem_of(response):
        text, hint = printable(problem.detail or problem.title) or text, printable(problem.hint) or hint
    after = response.headers.get("Retry-After", "") if status in (429, 503) else ""
    if after.isascii() and after.isdigit() and len(after) < 6:
        hint = f"{hint} (after {int(after)} s)"
    return _kind(status)(f"connect: {host}: {text}", hint=hint)


def problem_of(response: Response) -> Problem | None:
    """Returns the problem document in the body, or None."""
    body = response.body or b""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != PROBLEM or len(body) > MOST_BODY:
        return None
    try:
        return Problem.model_validate_json(bytes(body))
    except ValidationError:
        return None


def printable(text: str) -> str:
    """Replaces each unprintable character, which could steer a terminal, by a space."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def _kind(status: int) -> Callable[..., TacitaError]:
    if status == 503:
        return lambda text, *, hint: RefusedError(text, hint=hint, reason=Reason.FULL)
    return RefusedError if status in REFUSALS else PeerError


# The thread that carries bytes between a WebSocket and the engine's socket.
#
# One event loop and two tasks, one for each direction, of which neither waits for the other: a session sends
# and receives megabytes at the same time. (The package's own threads cannot: there a send that waits for the
# server holds back what the server sends.) What waits here is a message each way.

CHUNK = 256 << 10  # bytes taken from the engine at once; the socket holds about as many
KEEPALIVE = 30.0  # seconds between pings
FAREWELL = 10.0  # seconds for the server to say goodbye


@dataclass(frozen=True)
class Target:
    """Where to connect. url: as `websockets` takes it. host: as errors name it. context: None without TLS."""

    url: str
    host: str
    token: str | None
    context: ssl.SSLContext | None

    def __repr__(self) -> str:
        return f"Target({self.host})"


class Direct(connect):
    """Connects without following redirects: a token must not reach another server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Returns the redirect as an error."""
        return exc


@dataclass(frozen=True)
class Bridge:
    """The thread that carries bytes between the engine's socket and a WebSocket."""

    thread: threading.Thread

    @classmethod
    def started(cls, target: Target, engine: socket.socket, idle_timeout: float) -> Bridge:
        """Connects, and returns once the server has admitted this client. engine: the other end of the
        engine's socket, closed by the bridge. Raises what `refusal` makes of a failure."""
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        given_up = threading.Event()
        arguments = target, engine, idle_timeout, ready, given_up.is_set
        thread = threading.Thread(target=_run, args=arguments, name="tacita-websocket", daemon=True)
        thread.start()
        try:
            ready.result()
        except BaseException:
            given_up.set()  # Ctrl-C: the thread closes what it may still open
            raise
        return cls(thread)

    def ended(self) -> None:
        """Waits until the last bytes have left, at most twice the time of a closing handshake."""
        self.thread.join(2 * FAREWELL)


def _run(
    target: Target,
    engine: socket.socket,
    idle_timeout: float,
    ready: concurrent.futures.Future[None],
    given_up: Callable[[], bool],
) -> None:
    engine.setblocking(False)
    with engine:
        asyncio.run(_session(target, engine, idle_timeout, ready, given_up))


async def _session(
    target: Target,
    engine: socket.socket,
    idle_timeout: float,
    ready: concurrent.futures.Future[None],
    given_up: Callable[[], bool],
) -> None:
    try:
        websocket = await _connect(target, idle_timeout)
    except Exception as error:
        ready.set_exception(refusal(error, target.host))
        return
    ready.set_result(None)
    if given_up():
        websocket.transport.abort()
    else:
        await _carry(websocket, engine)


async def _connect(target: Target, idle_timeout: float) -> ClientConnection:
    return await Direct(
        target.url,
        additional_headers={"Authorization": f"Bearer {target.token}"} if target.token else {},
        user_agent_header=f"tacita/{__version__}",
        compression=None,
        open_timeout=min(CONNECTING, idle_timeout),
        close_timeout=FAREWELL,
        ping_interval=KEEPALIVE,
        ping_timeout=idle_timeout,  # a server that computes does not read
        max_size=FRAME_BYTES,
        max_queue=1,
        write_limit=CHUNK,
        ssl=target.context,
    )


async def _carry(websocket: ClientConnection, engine: socket.socket) -> None:
    """Carries bytes both ways until either end closes."""
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
    """Sends the engine's bytes until its socket is closed or the server is gone."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, WebSocketException):
        while data := await loop.sock_recv(engine, CHUNK):
            await websocket.send(data)


async def _down(websocket: ClientConnection, engine: socket.socket) -> None:
    """Passes the server's messages to the engine, to the last before the server is gone; once the engine's
    socket is closed they are dropped. A text message is not ours and ends the connection."""
    loop, open_ = asyncio.get_running_loop(), True
    with contextlib.suppress(WebSocketException):
        while isinstance(message := await websocket.recv(), bytes):
            if open_:
                try:
                    await loop.sock_sendall(engine, message)
                except OSError:
                    open_ = False


# Connecting to `WS /v1/two-party`: a party whose bytes a WebSocket carries.
#
# A socket pair lies between: its one end is the engine's, which speaks the two-party protocol over it as over
# TCP; a thread carries bytes between the other and the WebSocket (`Bridge`). TLS and the bearer token
# are those of the WebSocket.

SCHEMES = {"https": "wss", "wss": "wss", "http": "ws", "ws": "ws"}


class BridgedParty(Party):
    """A party over a WebSocket, whose `close` waits until its last bytes are sent."""

    def __init__(self, party: Party, bridge: Bridge) -> None:
        super().__init__(party.native)
        self._carrier = bridge

    def close(self) -> None:
        """Writes what is queued and closes the WebSocket; a server that is gone already is no error."""
        super().close()
        self._carrier.ended()


def dial(
    url: str,
    *,
    token: str | None,
    ssl_context: ssl.SSLContext | None = None,
    insecure_plain: bool = False,
    timeout: float = TIMEOUT,
    threads: int = 0,
) -> Party:
    """Connects as the client. url: wss:// or https://, with the model in its query. token: None for a server
    that asks for none.

    ssl_context: whom to trust, by default whom the system does. insecure_plain: admits ws:// and http://,
    where anybody on the way reads the token and every message. timeout: seconds of silence after which the
    server is given up. threads: 0 for all cores. Costs this process 2 ms of a core a megabyte and 0.2 ms a
    round beside bare TLS.
    Raises InputError for what cannot be dialled, RefusedError when the server does not admit this client,
    LateError, PeerError.
    """
    target = _target(url, token, ssl_context, insecure_plain=insecure_plain)
    ours, theirs = socket.socketpair()
    try:
        bridge = Bridge.started(target, theirs, timeout)
        return BridgedParty(over_socket(ours, client=True, timeout=timeout, threads=threads), bridge)
    except BaseException:
        ours.close()
        raise


def _target(url: str, token: str | None, context: ssl.SSLContext | None, *, insecure_plain: bool) -> Target:
    """Checks what the caller gave; neither the token nor anything beside the host is repeated in errors."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, SplitResult("", "", "", "", "")
    scheme = SCHEMES.get(parts.scheme)
    if not host or scheme is None or parts.username is not None or parts.fragment:
        raise InputError("connect: not the address of a server", hint="https://HOST[:PORT]/...")
    if scheme == "ws" and not insecure_plain:
        raise InputError(
            f"connect: {host} would be asked without TLS, and the token sent in the clear",
            hint="use https:// or, on a machine of your own, ask for a plain connection by name",
        )
    if token is not None and not TOKEN.fullmatch(token):
        raise InputError(
            "connect: the token is no text of printable characters", hint="see how it was stored"
        )
    where = urlunsplit((scheme, parts.netloc, parts.path, parts.query, ""))
    name = f"[{host}]" if ":" in host else host
    trusted = (context or ssl.create_default_context()) if scheme == "wss" else None
    return Target(where, f"{name}:{port}" if port else name, token, trusted)
