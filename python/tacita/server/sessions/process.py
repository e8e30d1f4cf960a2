"""The process that computes the two-party sessions of one model.

`python -m tacita.server.sessions.process FD`: FD is its end of a channel (see `control`), by which the
sockets of admitted clients come and one line for each session goes back. What brings this process down, as a
limit of memory or a defect that a stranger's bytes meet, leaves the service standing; and it holds no token,
no store and no network. A thread for each session; the end of the channel is the end of all.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tacita import checkpoint
from tacita.checkpoint.load import with_documents
from tacita.errors import FileError, TacitaError
from tacita.plans.plan import MAX_BYTES
from tacita.server.child import Channel, Ready, Unable, channel_of
from tacita.server.sessions.control import Order, Setup
from tacita.server.sessions.host import SessionHost
from tacita.texts.vectors import Index
from tacita.two_party.limits import limits_of, texts_of_a_key
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import share_threads
from tacita.two_party.server import TwoPartyServer


def server_of(setup: Setup, cores: int) -> TwoPartyServer:
    """Returns the model ready to serve, with the limits of so many sessions on so many cores. Raises
    FileError, CheckpointError, PlanError."""
    plan = plan_of(Path(setup.plan), setup.sha256)
    model = checkpoint.load(setup.folder, pooling=setup.pooling)
    if setup.documents is not None:
        model = with_documents(model, Index.load(Path(setup.documents)))
    crowding = setup.sessions / cores
    limits = limits_of(plan, bits_per_second=setup.bits_per_second, crowding=crowding)
    return TwoPartyServer(plan, model, limits, most_texts(plan, setup.texts_of_a_key))


def most_texts(plan: TwoPartyPlan, wanted: int | None) -> int | None:
    """Returns how many texts a key of the hidden table serves, None for any number. wanted: see
    `SessionSpec.texts_of_a_key`."""
    if plan.embedding is None:
        return None
    return texts_of_a_key(plan.numbers) if wanted is None else wanted or None


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


def serve(channel: Channel) -> None:
    """Serves the model that the service names, until the other end is closed."""
    began, setup = time.monotonic(), channel.receive()
    if not isinstance(setup, Setup):
        return
    try:
        server = server_of(setup, share_threads(setup.threads))
    except TacitaError as error:
        channel.send(Unable.of(error))
        return
    channel.send(Ready(time.monotonic() - began))
    SessionHost(server, setup.sessions, setup.silence, channel).listen()


def main() -> None:
    """Serves. Signals are for the service, which drains first."""
    serve(channel_of(sys.argv, Order))
    sys.stderr.flush()
    os._exit(0)  # sessions that run are over: their steps in the engine would be waited for


if __name__ == "__main__":
    main()
