"""What a process says to the server that stays, over a Unix-domain socket: lines of JSON, capped.

    asker:   {"tacita": 1, "evaluate": "/folder/with/request.ct"}
    server:  {"waiting": 2}  {"progress": {...}}  {"notice": "..."}  ...  {"done": {...}} or {"error": "..."}

The asker speaks once; the server closes after `done` or `error`. Nothing secret passes: the request is in the
folder, and the response will be.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacita.errors import GoneError, InputError, LateError, PeerError

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
