"""The process that computes the two-party sessions of one model.

`python -m tacita.server.sessions.process FD`: FD is its end of the control sockets (see `control`), by
which the sockets of admitted clients come and one line for each session goes back. What brings this process
down, as a limit of memory or a defect that a stranger's bytes meet, leaves the service standing; and it holds
no token, no store and no network. A thread for each session; the end of the control socket is the end of all.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from tacita import checkpoint
from tacita.errors import FileError, TacitaError
from tacita.plans.plan import MAX_BYTES
from tacita.server.child import die_with_parent, ignore_signals
from tacita.server.sessions import control
from tacita.server.sessions.control import Begin, Failed
from tacita.server.sessions.hosted import host_of
from tacita.two_party.limits import limits_of, texts_of_a_key
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import share_threads
from tacita.two_party.server import TwoPartyServer


def server_of(begin: Begin, cores: int) -> TwoPartyServer:
    """Returns the model ready to serve, with the limits of so many sessions on so many cores. Raises
    FileError, CheckpointError, PlanError."""
    plan = plan_of(Path(begin.plan), begin.sha256)
    model = checkpoint.load(begin.folder, pooling=begin.pooling)
    crowding = begin.sessions / cores
    limits = limits_of(plan, bits_per_second=begin.bits_per_second, crowding=crowding)
    most = None if plan.embedding is None else texts_of_a_key(plan.numbers)
    return TwoPartyServer(plan, model, limits, most)


def plan_of(path: Path, sha256: str) -> TwoPartyPlan:
    """Returns the plan of this file. Raises FileError for one absent, too long, damaged or another."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error})", hint="is the service's folder whole?") from error
    if len(data) > MAX_BYTES:
        raise FileError(f"{path}: a plan has at most {MAX_BYTES} bytes", hint="is this another file?")
    plan = parse_plan(data)
    if plan.hash != sha256:
        raise FileError(
            f"{path}: plan {plan.hash[:12]}, not {sha256[:12]}",
            hint="it was changed: start the service again",
        )
    return plan


def end_with(parent: int) -> None:
    """Has this process killed when its parent dies."""
    die_with_parent()
    if os.getppid() != parent:  # it died before
        os._exit(1)


def serve(speaking: socket.socket) -> None:
    """Serves the model that the supervisor names, until the other end is closed."""
    first = control.received(speaking)
    if first is None or not isinstance(begin := first[0], Begin):
        return
    end_with(begin.parent)
    try:
        server = server_of(begin, share_threads(begin.threads))
    except TacitaError as error:
        speaking.send(control.encode(Failed(text=str(error)[:2000], hint=error.hint[:2000])))
        return
    host_of(server, begin.sessions, begin.silence, speaking).listen()


def main() -> None:
    """Serves. Signals are for the supervisor, which drains first."""
    ignore_signals()
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.stderr.flush()
    os._exit(0)  # sessions that run are over: their steps in the engine would be waited for


if __name__ == "__main__":
    main()
