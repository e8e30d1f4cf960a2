"""Starts what an image starts, without root and on a root that can only be read, and asks it from outside.

It runs in a network of its own (`alone`), where the image's port is free. The server is one room, the client
that classifies another with its own data, as on another machine; health is asked from neither.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Timer

from clean_root.dockerfile import Settings
from clean_root.rooms import Room

PATIENCE = 300.0  # seconds until it listens: the health check's --start-period
STOPPING = 60.0  # compose's stop_grace_period
LISTENING = "listening on "
RENAMED = "c0ffee000002"  # a container that is made anew on the same data
TEXT = "a film of quiet beauty"
LABEL = "positive"


class TrialError(Exception):
    """What the container promised and did not keep."""


def alone(command: list[str]) -> list[str]:
    """The same command in a network without any other machine, as the first of processes that end with it."""
    own = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return ["unshare", *own, "--", *command]


def loopback_up() -> None:
    """In a new network even this machine cannot be reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(any_socket, 0x8913, asked))[1]
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", flags | 1, b""))


def tried(room: Room, settings: Settings, work: Path, said: Callable[[str], None]) -> None:
    """Starts, asks, stops. room: what the image holds. work: a folder for the data of server and client.
    Raises TrialError."""
    (volume,) = settings.volumes
    at = {name: _data(room, volume, work / name, settings.user) for name in ("server", "client")}
    rooms = {name: replace(room, writable={volume: path}, fixed=True).prepared() for name, path in at.items()}
    _require_fixed(rooms["server"], settings)
    with _started(rooms["server"], settings, said):
        certificate = at["server"] / "tls" / "certificate.pem"
        for path in ("/healthz", "/readyz"):
            said(f"GET {path}: {_got(settings.port, path, certificate)}")
        rooms["server"].run(settings.health, settings.env, settings.user)
        said("health check: passes")
        add = ("token", "add", "trial", "--data", f"{volume}/served")
        token = rooms["server"].run((*settings.entrypoint, *add), settings.env, settings.user).strip()
        _give(at["client"], {"certificate.pem": certificate.read_text(), "token": token}, settings.user)
        address = ("--connect", f"https://localhost:{settings.port}", "--scheme", "bumblebee")
        known = ("--trust", f"{volume}/certificate.pem")
        own = {"XDG_DATA_HOME": volume, "TACITA_NETWORK__TOKEN_FILE": f"{volume}/token"}
        asked = (*settings.entrypoint, "classify", TEXT, *address, *known)
        answer = rooms["client"].run(asked, settings.env | own, settings.user)
        said(answer.strip())
        if LABEL not in answer:
            raise TrialError(f"the answer to {TEXT!r} is not {LABEL}")
    with _started(replace(rooms["server"], hostname=RENAMED), settings, said):
        said(f"GET /readyz under another host name: {_got(settings.port, '/readyz', certificate)}")


@contextmanager
def _started(room: Room, settings: Settings, said: Callable[[str], None]) -> Iterator[None]:
    """The image's own command, until it listens; ended as a runtime ends it."""
    words = (*settings.entrypoint, *settings.cmd)
    command = room.command(words, settings.env, settings.user, settings.workdir)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    timer = Timer(PATIENCE, kill, [process])
    timer.start()
    try:
        _hear(process, said)
        timer.cancel()
        yield
        _stop(process, said)
    finally:
        timer.cancel()
        kill(process)
        process.wait()


def _hear(process: subprocess.Popen[str], said: Callable[[str], None]) -> None:
    assert process.stdout is not None  # it is a pipe
    for line in process.stdout:
        said(line.rstrip())
        if line.startswith(LISTENING):
            return
    raise TrialError(f"the server ended, or did not listen after {PATIENCE:.0f} s")


def _stop(process: subprocess.Popen[str], said: Callable[[str], None]) -> None:
    """SIGTERM to the first process of the room, as `docker stop` sends it."""
    os.kill(_first(process), signal.SIGTERM)
    try:
        status = process.wait(STOPPING)
    except subprocess.TimeoutExpired as error:
        raise TrialError(f"it does not end {STOPPING:.0f} s after SIGTERM") from error
    if status:
        raise TrialError(f"it ends with status {status} after SIGTERM")
    said("SIGTERM: it ended")


def kill(process: subprocess.Popen[str]) -> None:
    """And whoever is in the room: the first process there takes all others along."""
    if process.poll() is None:
        with suppress(ValueError, OSError):  # it ends by itself just now
            os.kill(_first(process), signal.SIGKILL)


def _first(process: subprocess.Popen[str]) -> int:
    """Of the room that a running `unshare` has made."""
    (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(first)


def _require_fixed(room: Room, settings: Settings) -> None:
    """Raises TrialError where the user is root, or may write outside the data."""
    script = 'test "$(id -u)" != 0 && ! touch /tacita/x /usr/x /etc/x /home/x 2>/dev/null && ! ls /root/x'
    command = room.command(("sh", "-c", f"{script} 2>/dev/null"), settings.env, settings.user)
    if subprocess.run(command, check=False).returncode:
        raise TrialError("its user is root, or may write outside its data")


def _got(port: int, path: str, certificate: Path) -> str:
    """Asks again for as long as it answers 503. Raises TrialError."""
    trust = ssl.create_default_context(cafile=certificate)
    until = time.monotonic() + STOPPING
    while True:
        try:
            with urllib.request.urlopen(f"https://localhost:{port}{path}", timeout=4, context=trust) as found:
                return str(found.status)
        except urllib.error.HTTPError as error:
            if error.code != 503 or time.monotonic() > until:
                raise TrialError(f"GET {path}: {error.code}") from error
            time.sleep(int(error.headers.get("Retry-After", "1")))


def _data(room: Room, volume: str, folder: Path, user: str) -> Path:
    """A new volume: with the owner and mode that the image gives its place."""
    shutil.copytree(room.root / volume.lstrip("/"), folder)
    place = (room.root / volume.lstrip("/")).stat()
    shutil.chown(folder, place.st_uid, place.st_gid)
    folder.chmod(place.st_mode & 0o7777)
    if place.st_uid != int(user):
        raise TrialError(f"{volume} belongs to {place.st_uid}, not to the user {user}")
    return folder


def _give(folder: Path, files: dict[str, str], user: str) -> None:
    for name, text in files.items():
        (folder / name).touch(0o600)
        (folder / name).write_text(text)
        shutil.chown(folder / name, int(user))
