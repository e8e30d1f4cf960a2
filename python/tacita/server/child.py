"""Child processes of the service: how one is started, sent messages, started again, ended; and its own side.

    service: the set-up of its kind     child: Ready, or Unable and its end
    then messages of both, one JSON object a line over a pair of Unix sockets; a socket may go along with one
    the end of one is the end of the other: no message says so

Messages are frozen dataclasses with a `tag`, capped and checked by type in every field. A child computes on
bytes of clients, so that what it says is checked like the words of a stranger. It leaves signals to the
service, and the kernel ends it where the service was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import math
import signal
import socket
import sys
import threading
import time
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tacita.errors import PeerError, TacitaError
from tacita.plans.json_fields import from_json, to_json

MOST_BYTES = 1 << 20  # of a message: the seconds of all stages
MOST_TEXT = 2000  # characters of an error
MOST_PATH = 8192  # characters of any other string
PIECE = 1 << 16  # bytes that are read at once
STDERR = 2
SET_PDEATHSIG = 1  # of prctl(2): PR_SET_PDEATHSIG in linux/prctl.h
READY_SECONDS = 1800.0  # to load a model and build its circuit: minutes for the largest
END_SECONDS = 5.0  # from the end of its socket to the end of the process
LONGEST_PAUSE = 60.0  # seconds between two starts of a child that does not stay, and of a life that counts
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Message:
    """The base of every message. Raises ValueError for a number below 0 or not finite, and a long string."""

    tag: ClassVar[str]

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise ValueError(f"{name} is no count")
            if isinstance(value, str | Path) and len(str(value)) > MOST_PATH:
                raise ValueError(f"{name} has {len(str(value))} characters")


@dataclass(frozen=True)
class Ready(Message):
    """Says that the child serves from now on. seconds: that its set-up took."""

    tag: ClassVar[str] = "ready"
    seconds: float


@dataclass(frozen=True)
class Unable(Message):
    """Says that the child cannot serve; it ends. error, hint: for the operator."""

    tag: ClassVar[str] = "unable"
    error: str
    hint: str

    @classmethod
    def of(cls, error: TacitaError) -> Unable:
        return cls(str(error)[:MOST_TEXT], error.hint[:MOST_TEXT])


def encode(message: Message) -> bytes:
    """Returns a message as a line, with its end."""
    return json.dumps(to_json(message)).encode() + b"\n"


def decode(kinds: Any, text: bytes) -> Any:
    """Returns the message of a line without its end. kinds: a union of those that may come. Raises PeerError
    for what is none of them."""
    try:
        return from_json(kinds, json.loads(text))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        why = f"{error!s:.200}".encode("ascii", "replace").decode()
        raise PeerError(
            f"a line of {len(text)} bytes between service and child is no message ({why})",
            hint="use one release",
        ) from None


class Lines:
    """Cuts what comes into lines."""

    def __init__(self) -> None:
        self._rest, self._whole = bytearray(), deque[bytes]()

    def feed(self, data: bytes) -> None:
        """Takes the next bytes. Raises PeerError for a line of more than MOST_BYTES."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._whole.extend(map(bytes, whole))
        self._rest = rest
        if max(map(len, (*whole, rest))) > MOST_BYTES:
            raise PeerError(f"a line of more than {MOST_BYTES} bytes", hint="use one release")

    def next(self) -> bytes | None:
        """Returns the next whole line without its end; None where none is there yet."""
        return self._whole.popleft() if self._whole else None


class Channel:
    """The child's end, for threads: one receives, any sends. kinds: a union of what may come."""

    def __init__(self, sock: socket.socket, kinds: Any) -> None:
        self._sock, self._kinds = sock, kinds
        self._lines, self._sockets = Lines(), deque[socket.socket]()
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Sends a message; waits while the other end does not read. Raises BrokenPipeError at its end."""
        with self._lock:
            self._sock.sendall(encode(message))

    def receive(self) -> Any:
        """Waits for the next message and returns it; None at the end. Raises PeerError for what is none."""
        while (text := self._lines.next()) is None:
            try:
                data, descriptors, flags, _ = socket.recv_fds(self._sock, PIECE, 1)
            except ConnectionError:
                return None
            self._sockets.extend(socket.socket(fileno=descriptor) for descriptor in descriptors)
            if flags & socket.MSG_CTRUNC:
                while self._sockets:
                    self._sockets.pop().close()
                raise PeerError("a message with more than one socket", hint="use one release")
            if not data:
                return None
            self._lines.feed(data)
        return decode(self._kinds, text)

    def take_socket(self) -> socket.socket:
        """Returns the socket that came with the message received last: of those that came, the first that was
        not taken. Raises PeerError where none is there."""
        if not self._sockets:
            raise PeerError("a message came without its socket", hint="use one release")
        return self._sockets.popleft()


def channel_of(words: Sequence[str], kinds: Any) -> Channel:
    """Returns the channel of a child by its command line, of which the last word is a descriptor. From now on
    it dies with the service and leaves signals to it."""
    die_with_parent()
    ignore_signals()
    return Channel(socket.socket(fileno=int(words[-1])), kinds)


def die_with_parent() -> None:
    """Has the kernel kill this process when the thread that started it ends (Linux; elsewhere, and where the
    parent was gone before, the end of the socket tells)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def ignore_signals() -> None:
    """Ignores SIGTERM and SIGINT, which are the service's to obey: systemd and terminals send them to a whole
    group, and a process that ended at once would break off what the service lets come to its end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


class Child:
    """A process as the service sees it, in the event loop's thread. sock: our end. kinds: a union of what it
    may say."""

    def __init__(self, process: Process, sock: socket.socket, kinds: Any) -> None:
        self._process, self._sock, self._kinds, self._lines = process, sock, kinds, Lines()
        sock.setblocking(False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message, *sockets: socket.socket) -> None:
        """Sends a message, and a socket with it. Raises OSError for a process that is gone, or reads none."""
        data, descriptors = encode(message), [each.fileno() for each in sockets]
        sent = socket.send_fds(self._sock, [data], descriptors) if descriptors else self._sock.send(data)
        if sent < len(data):
            self.kill()  # the rest would be in the middle of the next one
            raise BlockingIOError("the process does not read")

    async def receive(self) -> Any:
        """Returns its next message; None when it is gone. Raises PeerError for what is none."""
        while (text := self._lines.next()) is None:
            try:
                data = await asyncio.get_running_loop().sock_recv(self._sock, PIECE)
            except ConnectionError:
                return None
            if not data:
                return None
            self._lines.feed(data)
        return decode(self._kinds, text)

    def kill(self) -> None:
        """Ends the process at once, if it is there; `receive` tells when it has gone."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self, seconds: float | None = None) -> None:
        """Closes the socket, and kills a process that does not end within so many seconds, END_SECONDS by
        default. Must not be called while `receive` waits."""
        self._sock.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS if seconds is None else seconds)
        except TimeoutError:
            self.kill()
            await self._process.wait()


async def start(
    name: str,
    command: Sequence[str],
    setup: Message,
    kinds: Any,
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Starts a process, in a session of its own, so that Ctrl-C at the service's terminal does not reach it,
    and returns it when it is ready. command: a descriptor is added to it. kinds: what it may say beside Ready
    and Unable. environment: the whole of it; None for this process's own. Call it in the thread that lives as
    long as the service: the process ends with it. What it prints goes to standard error.

    Raises TacitaError with `name` for a process that cannot serve, or says nothing for READY_SECONDS.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *command,
                str(theirs.fileno()),
                stdin=DEVNULL,
                stdout=STDERR,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment,
            )
    except OSError as error:
        ours.close()
        raise TacitaError(f"{name}: no process ({error.strerror})", hint="") from None
    except BaseException:
        ours.close()  # a process that is on its way ends with it
        raise
    child = Child(process, ours, kinds | Ready | Unable)
    try:
        with contextlib.suppress(OSError):  # it is gone: `receive` tells
            child.send(setup)
        match await asyncio.wait_for(child.receive(), READY_SECONDS):
            case Ready():
                return child
            case Unable(what, hint):
                raise TacitaError(f"{name}: {what}", hint=hint)
            case None:
                raise TacitaError(
                    f"{name}: its process ended before it was ready", hint="its log may say why"
                )
            case message:
                raise TacitaError(f"{name}: said {message.tag} before it was ready", hint="use one release")
    except BaseException as failure:
        await child.end(0.0)  # while it loads it does not read
        if isinstance(failure, TimeoutError):
            raise TacitaError(f"{name}: not ready after {READY_SECONDS:.0f} s", hint="") from failure
        raise


class Supervisor:
    """Keeps a child, and starts another when it ends.

    name: for the log. start: returns a child that is ready. on_message: called with what it says; raises
    PeerError for what it cannot have said. on_exit: called when it has ended; returns whether another is
    wanted. on_ready: called when another is there. starts: in a row, of children that did nothing: who sees
    one work sets it to 0, so that the next follows it without a pause.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Awaitable[Child]],
        on_message: Callable[[Any], None],
        on_exit: Callable[[], bool] = lambda: True,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._name, self._start = name, start
        self._on_message, self._on_exit, self._on_ready = on_message, on_exit, on_ready
        self.child: Child | None = None
        self._life: asyncio.Task[None] | None = None
        self.starts, self.leaving = 0, False
        self._came = asyncio.Event()

    @property
    def over(self) -> bool:
        """Returns whether it is left for good: no child is here and none will be."""
        return self.leaving and (self._life is None or self._life.done())

    async def open(self) -> None:
        """Starts the first child and waits until it is ready. Raises as `start`."""
        self._take(await self._start())
        self._life = asyncio.create_task(self._live())

    def join(self) -> None:
        """Starts the first child in the background, however many attempts that takes."""
        self._life = asyncio.create_task(self._live())

    async def wait(self, seconds: float) -> Child | None:
        """Returns the child, after so many seconds at most while it is being started."""
        await set_within(self._came, seconds)
        return self.child

    def kill(self) -> None:
        """Ends the child at once, if there is one; another follows."""
        if self.child is not None:
            self.child.kill()

    def leave(self) -> None:
        """Ends the child for good: nobody follows."""
        self.leaving = True
        self.kill()
        if self.child is None and self._life is not None:
            self._life.cancel()

    async def close(self, seconds: float | None = None) -> None:
        """Ends the child, whatever it does, as `Child.end` does. `on_exit` is not called."""
        self.leaving = True
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        if self.child is not None:
            await self.child.end(seconds)
            self._take(None)

    def _take(self, child: Child | None) -> None:
        self.child = child
        (self._came.clear if child is None else self._came.set)()

    async def _live(self) -> None:
        """Reads the messages of this child and of those that replace it."""
        while True:
            if self.child is not None:
                await self._read(self.child)
                self._take(None)
                if not self._on_exit() or self.leaving:
                    return
            self._take(await self._replace())
            self._on_ready()

    async def _read(self, child: Child) -> None:
        """Reads the child's messages until it is no more."""
        began = time.monotonic()
        try:
            while (message := await child.receive()) is not None:
                self._on_message(message)
        except Exception as error:  # of others than PeerError only the type: its text may hold anything
            what = error if isinstance(error, PeerError) else type(error).__name__
            log.error("%s, process %d: %s", self._name, child.pid, what)
        await child.end()
        log.warning("%s: process %d has ended", self._name, child.pid)
        if time.monotonic() - began > LONGEST_PAUSE:
            self.starts = 0

    async def _replace(self) -> Child:
        """Starts another child, after a pause."""
        while True:
            await asyncio.sleep(pause_after(self.starts))
            self.starts += 1
            try:
                return await self._start()
            except TacitaError as error:
                log.error("%s", error)


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, so many seconds at most. Returns whether it is set."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def pause_after(starts: int) -> float:
    """Returns the seconds before the next start, by those in a row of children that did nothing.

    >>> [pause_after(starts) for starts in (0, 1, 2, 9)]
    [0.0, 1.0, 3.0, 60.0]
    """
    return min(2.0 ** min(starts, 10) - 1, LONGEST_PAUSE)
