"""The socket of a server that stays: a bounded queue, one request at a time, askers told how it goes.

The main thread evaluates, so that Ctrl-C ends an evaluation between two operations; a thread accepts, and
one for each newcomer waits for its one line, so that nobody's silence delays another. A request whose asker
has gone is ended at its next stage. Whatever is wrong with a request is that asker's answer; the server goes
on.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacita.errors import FileError, GoneError, InputError, LateError, PeerError, TacitaError
from tacita.evaluate.standing import Standing
from tacita.progress import Progress

# What a process says to the server that stays, over a Unix-domain socket: lines of JSON, capped.
#
#     asker:   {"tacita": 1, "evaluate": "/folder/with/request.ct"}
#     server:  {"waiting": 2}  {"progress": {...}}  {"notice": "..."}  ...  {"done": {...}} or {"error":
# "..."}
#
# The asker speaks once; the server closes after `done` or `error`. Nothing secret passes: the request is in
# the folder, and the response will be.

VERSION = 1
ASKED_BYTES = 1 << 13  # of the asker's line
TOLD_BYTES = 1 << 20  # of a line of the server: the seconds of all stages
PATH_BYTES = 107  # of a socket's name, by the operating system
SEND_SECONDS = 2.0  # an asker that reads nothing for so long has gone
CHUNK = 1 << 12


class Lines:
    """One end of a connection. Close it by closing the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._rest = connection, b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises GoneError when nobody reads."""
        try:
            self._socket.settimeout(SEND_SECONDS)
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise GoneError(f"the other process has gone ({error})", hint="ask again") from error

    def receive(self, most: int, seconds: float | None = None) -> dict[str, Any]:
        """The next message of at most so many bytes, all of it within so many seconds (None: any number).

        Raises LateError, GoneError, and PeerError for a longer line or another thing than a JSON object.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._rest:
            if len(self._rest) > most:
                raise PeerError(f"a line of more than {most} bytes", hint="is it another program?")
            self._rest += self._more(until)
        line, _, self._rest = self._rest.partition(b"\n")
        return parsed(line, most)

    def gone(self) -> bool:
        """Whether the other end has closed; asks nobody and waits for nothing."""
        try:
            self._socket.settimeout(0)
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Of both directions."""
        self._socket.close()

    def _more(self, until: float | None) -> bytes:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise LateError("the other process said nothing in time", hint="ask again")
        try:
            self._socket.settimeout(left)
            data = self._socket.recv(CHUNK)
        except TimeoutError as error:
            raise LateError("the other process said nothing in time", hint="ask again") from error
        except OSError as error:
            raise GoneError(f"the other process has gone ({error})", hint="ask again") from error
        if not data:
            raise GoneError("the other process has closed the connection", hint="does the server still run?")
        return data


def parsed(line: bytes, most: int) -> dict[str, Any]:
    """A line without its end. Raises PeerError for a longer one or another thing than a JSON object."""
    if len(line) > most:
        raise PeerError(f"a line of more than {most} bytes", hint="is it another program?")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise PeerError("a line that is no JSON", hint="is it another program?") from error
    if not isinstance(found, dict):
        raise PeerError("a line that is no JSON object", hint="is it another program?")
    return found


def asked(message: Mapping[str, Any]) -> str:
    """The folder that an asker names. Raises PeerError for another message or version."""
    if message.get("tacita") != VERSION:
        raise PeerError("a request of another version", hint="use one release on both sides")
    name = message.get("evaluate")
    if set(message) != {"tacita", "evaluate"} or not isinstance(name, str):
        raise PeerError("a request with other fields", hint="use one release on both sides")
    return name


def connect(path: Path) -> Lines:
    """To the server that listens there. Raises PeerError when none does, InputError for too long a name."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(socket_name(path))
    except OSError as error:
        connection.close()
        raise PeerError(
            f"{path}: no server listens there ({error.strerror})", hint="tacita evaluate --listen"
        ) from error
    return Lines(connection)


def socket_name(path: Path) -> str:
    """What the operating system takes. Raises InputError for too long a path."""
    name = str(path)
    if len(name.encode()) > PATH_BYTES:
        raise InputError(f"{name}: a socket's path has at most {PATH_BYTES} bytes", hint="a shorter one")
    return name


GREETING_SECONDS = 10.0  # an asker has so long to say what it wants
NEWCOMERS = 16  # that have not said it yet
PRIVATE = 0o177  # umask: the socket is the owner's alone
BACKLOG = 16
MOST_TEXT = 2000  # characters of an error that are told

Figures = Callable[[Any, float], Mapping[str, Any]]
Told = Callable[[str, str, float], None]


@dataclass(frozen=True)
class Request:
    """A folder that waits, and who asked."""

    folder: Path
    lines: Lines


class Desk:
    """standing: who answers. waiting: requests that may wait beside the one that runs; more are refused.

    figures: (the folder's server, seconds) -> what `done` says. told: (folder, ending, seconds) of each
    request.
    """

    def __init__(
        self,
        standing: Standing,
        *,
        waiting: int,
        figures: Figures,
        told: Told = lambda _folder, _ending, _seconds: None,
        greeting: float = GREETING_SECONDS,
    ) -> None:
        self._standing, self._figures, self._told, self._greeting = standing, figures, told, greeting
        self._waiting: queue.Queue[Request] = queue.Queue(waiting)
        self._newcomers = threading.Semaphore(NEWCOMERS)
        self._door = threading.Lock()  # one newcomer at a time is counted, told and queued
        self._open: set[Lines] = set()
        self._running = 0

    def serve(self, listener: socket.socket) -> None:
        """Answers until it is interrupted; then whoever waits is told so. Call it in the main thread."""
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        try:
            while True:
                request = self._waiting.get()
                self._running = 1
                self._answer(request)
                self._running = 0
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for lines in list(self._open):
                self._end(lines, {"error": "the server has ended", "hint": "ask again when it is back"})

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # when the listener is shut down
            while True:
                lines = Lines(listener.accept()[0])
                self._open.add(lines)
                if self._newcomers.acquire(blocking=False):
                    threading.Thread(target=self._greet, args=(lines,), daemon=True).start()
                else:
                    self._end(lines, _refusal(f"{NEWCOMERS} others have not said yet what they want"))

    def _greet(self, lines: Lines) -> None:
        """Takes the newcomer's request into the queue, or says why not."""
        try:
            folder = self._standing.folder(asked(lines.receive(ASKED_BYTES, self._greeting)))
            if not self._queued(Request(folder, lines)):
                self._end(lines, _refusal(f"{self._waiting.maxsize} requests are waiting"))
        except TacitaError as error:
            self._end(lines, _told(error))
        finally:
            self._newcomers.release()

    def _queued(self, request: Request) -> bool:
        """Whether there was room. The asker hears its place before anything else of its request, and who has
        heard one keeps it: nobody slips in between."""
        with self._door:
            if self._waiting.full():
                return False
            request.lines.send({"waiting": self._waiting.qsize() + self._running})
            self._waiting.put_nowait(request)
            return True

    def _answer(self, request: Request) -> None:
        began, lines = time.monotonic(), request.lines
        try:
            server = self._standing.evaluate(request.folder, self._reporting(lines), self._noticing(lines))
            last: Mapping[str, Any] = {"done": self._figures(server, time.monotonic() - began)}
            ending = "answered"
        except PeerError:
            last, ending = _refusal("nobody waits for it"), "ended: its asker has gone"
        except TacitaError as error:
            last, ending = _told(error), f"refused: {error}"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a defect, a panic of the engine, no memory: the next may be well
            last, ending = _defect(error), f"failed: {type(error).__name__}: {error}"
        self._end(lines, last)
        self._told(str(request.folder), ending, time.monotonic() - began)

    def _reporting(self, lines: Lines) -> Callable[[Progress], None]:
        """Raises GoneError when the asker has gone."""

        def report(now: Progress) -> None:
            if lines.gone():
                raise GoneError("the asker has gone", hint="")
            lines.send({"progress": asdict(now)})

        return report

    def _noticing(self, lines: Lines) -> Callable[[str], None]:
        return lambda text: lines.send({"notice": text[:MOST_TEXT]})

    def _end(self, lines: Lines, message: Mapping[str, Any]) -> None:
        """The last word to an asker, whether it listens or not."""
        with contextlib.suppress(PeerError):
            lines.send(message)
        lines.close()
        self._open.discard(lines)


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket of mode 0600 at `path`, removed afterwards. One that a killed server left is replaced.

    Raises FileError when another server listens there, or another kind of file is there; InputError for too
    long a path.
    """
    name = socket_name(path)
    _make_room(path, name)
    listener, mask = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), os.umask(PRIVATE)
    try:
        listener.bind(name)
    except OSError as error:
        listener.close()
        raise FileError(f"{path}: cannot listen there ({error.strerror})", hint="another path") from error
    finally:
        os.umask(mask)
    listener.listen(BACKLOG)
    try:
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def _make_room(path: Path, name: str) -> None:
    """Removes the socket of a server that is no more."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileError(f"{path}: there is a file that is no socket", hint="another path")
    except FileNotFoundError:
        return
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with probe, contextlib.suppress(ConnectionRefusedError):
        probe.connect(name)
        raise FileError(f"{path}: another server listens there", hint="another path")
    path.unlink(missing_ok=True)


def _refusal(why: str) -> dict[str, Any]:
    return {"error": f"the server is busy: {why}", "hint": "ask again later"}


def _told(error: TacitaError) -> dict[str, Any]:
    return {"error": str(error)[:MOST_TEXT], "hint": error.hint[:MOST_TEXT]}


def _defect(error: BaseException) -> dict[str, Any]:
    """No more than its kind: its text may hold anything."""
    return {"error": f"the evaluation failed ({type(error).__name__})", "hint": "its operator sees why"}
