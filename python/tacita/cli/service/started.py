"""A `tacita serve --https` of one's own: a process on this machine, for as long as a block lasts."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tacita.cli.options import Values, variables
from tacita.errors import ResourceError

LISTENING = "listening on "
PATIENCE = 600.0  # seconds for plans, workers and models
ENDING = 60.0  # seconds for the server to end by itself


@dataclass(frozen=True)
class Started:
    """url: where it listens. certificate: to trust. data: the server's folder. greeting: what it printed."""

    url: str
    certificate: Path
    data: Path
    process: subprocess.Popen[str]
    greeting: Sequence[str]

    def token(self, name: str, *, operator: bool = False, **quota: int) -> str:
        """Adds a client, as `tacita token add` does, and returns its token. quota: fields of `Quota`."""
        from tacita.server.store import tokens
        from tacita.server.store.ledger import Ledger
        from tacita.server.store.tables import Quota

        with closing(Ledger(self.data)) as ledger:
            return tokens.add(ledger, name, Quota(**quota), operator=operator)


@contextmanager
def started(
    folder: Path,
    *options: str,
    settings: Values | None = None,
    plain: bool = False,
    descriptors: int | None = None,
) -> Iterator[Started]:
    """A server with data, certificate and `log`, its standard error, in this folder; a second on the same
    folder goes on where the first stood. options, settings: of `tacita serve`. plain: HTTP without TLS, for
    this machine alone. descriptors: how many the server may have, None for as many as this process.

    Raises ResourceError where it does not come to listen.
    """
    tls, data = folder / "tls", folder / "data"
    secured = ["--insecure-plain-tcp"] if plain else ["--new-certificate", str(tls)]
    places = ["--https", "127.0.0.1:0", *secured, "--data", str(data)]
    limited = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh"] if descriptors else []
    command = [*limited, sys.executable, "-m", "tacita", "serve", *places, *options]
    own = os.environ | variables(settings or {})
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, env=own
        )
    lines: queue.Queue[str | None] = queue.Queue()
    reading = threading.Thread(target=_pass_on, args=(process.stdout, lines), daemon=True)
    reading.start()
    try:
        greeting = _greeting(lines, folder / "log")
        url = greeting[-1].removeprefix(LISTENING).partition(",")[0]
        yield Started(url, tls / "certificate.pem", data, process, greeting)
    finally:
        ended(process)
        reading.join(ENDING)


def ended(process: subprocess.Popen[str]) -> int:
    """Asks a process to end, kills it if it does not, and returns its exit status."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _greeting(lines: queue.Queue[str | None], log: Path) -> list[str]:
    """Returns the lines up to the one that says where the server listens."""
    greeting: list[str] = []
    while not (greeting and greeting[-1].startswith(LISTENING)):
        try:
            line = lines.get(timeout=PATIENCE)
        except queue.Empty:
            line = None
        if line is None:
            *_, last = ["it said nothing", *log.read_text(errors="replace").splitlines()]
            raise ResourceError("the server did not start", hint=last)
        greeting.append(line)
    return greeting


def _pass_on(output: IO[str] | None, lines: queue.Queue[str | None]) -> None:
    assert output is not None  # it is a pipe
    with output:
        for line in output:
            lines.put(line.rstrip())
    lines.put(None)
