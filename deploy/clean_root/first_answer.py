"""Times the first private answer of a model of one's own, as the README has it: install a wheel, fetch a
model, serve it, ask it."""

from __future__ import annotations

import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clean_root.ask import LISTENING, PATIENCE, TEXT, TrialError, kill
from clean_root.build import HOSTS, OWN_CA, TRUSTING
from clean_root.rooms import Room

LIMIT = 180.0  # seconds from the wheel to the answer, on two cores
MODEL = "minilm"
ENVIRONMENT = "/tacita"
Said = Callable[[str], None]
Command = Callable[[tuple[str, ...]], list[str]]  # from the words after `tacita` to what is executed


def first_answer(room: Room, wheel: Path, ca: Path | None, said: Said) -> float:
    """Carries out all steps in a root without tacita, and returns their seconds. wheel: with the extra
    `client`. ca: certificates that the machine's own proxy needs. Raises TrialError, CalledProcessError."""
    shutil.copyfile("/etc/resolv.conf", room.root / "etc" / "resolv.conf")
    (room.root / "etc" / "hosts").write_text(HOSTS)
    shutil.copyfile(wheel, room.root / "tmp" / wheel.name)
    env = {"HOME": "/home", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if ca:
        shutil.copyfile(ca, room.root / OWN_CA.lstrip("/"))
        env |= dict.fromkeys(TRUSTING, OWN_CA)

    def command(words: tuple[str, ...]) -> list[str]:
        return room.command((f"{ENVIRONMENT}/bin/tacita", *words), env)

    began = time.monotonic()
    with step("install", said):
        room.run(("python3", "-m", "venv", ENVIRONMENT), env)
        pip = (f"{ENVIRONMENT}/bin/python", "-m", "pip", "install", "--quiet", "--no-cache-dir")
        room.run((*pip, f"/tmp/{wheel.name}[client]"), env)
    with step("fetch the model", said):
        subprocess.run(command(("models", "fetch", MODEL)), check=True, stdout=subprocess.DEVNULL)
    said(private_answer(command, MODEL, "/home/server", said))
    return time.monotonic() - began


def private_answer(command: Command, model: str, folder: str, said: Said) -> str:
    """Serves a model on a free port, asks it for a vector, and returns what the client shows. folder: for the
    certificate, as the command sees it. Raises TrialError."""
    options = ("--scheme", "bumblebee", "--model", model, "--tokens", "16", "--port", "0")
    serve = command(("serve", *options, "--new-certificate", folder))
    with step("serve and ask", said), subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            with step("serve", said):
                port = _port(server)
            with step("ask", said):
                where = ("--connect", f"localhost:{port}", "--trust", f"{folder}/certificate.pem")
                asked = subprocess.run(
                    command(("embed", TEXT, *where)),
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE,
                    check=False,
                )
        finally:
            kill(server)
            server.terminate()
    if asked.returncode or "norm" not in asked.stdout:
        raise TrialError(f"no answer: {asked.stderr.strip()[-300:]}")
    return next(line for line in asked.stdout.splitlines() if "norm" in line)


def _port(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None  # it is a pipe
    for line in server.stdout:
        if line.startswith(LISTENING):
            return line.partition(",")[0].rpartition(":")[2]
    raise TrialError("the server ended before it listened")


@contextmanager
def step(name: str, said: Said) -> Iterator[None]:
    """Says how long the block took, and the processor time of the processes that ended in it."""
    began, before = time.monotonic(), _processor_seconds()
    yield
    said(f"{name}: {time.monotonic() - began:.1f} s, processor {_processor_seconds() - before:.1f} s")


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
