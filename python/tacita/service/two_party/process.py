"""The process that computes the two-party sessions of one model.

`python -m tacita.service.two_party.process FD`: FD is its end of the control sockets (see `control`), by
which the sockets of admitted clients come and one line for each session goes back. What brings this process
down, as a limit of memory or a defect that a stranger's bytes meet, leaves the service standing; and it holds
no token, no store and no network. A thread for each session; the end of the control socket is the end of all.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tacita import checkpoint
from tacita.errors import FileError, PeerError, TacitaError
from tacita.plans.plan import MAX_BYTES
from tacita.plans.two_party.check import parse_plan
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.protocol.party import Party, over_socket, share_threads
from tacita.server.admission import Admission, Caps, Guest
from tacita.server.limits import limits_of
from tacita.server.publication import texts_of_a_key
from tacita.server.two_party import Served, TwoPartyServer
from tacita.service.child import die_with_parent, ignore_signals
from tacita.service.two_party import control
from tacita.service.two_party.control import Begin, Failed, Finished, Message, Open, Ready, SoFar

HERE = "127.0.0.1"  # every client's address is the relay's; the supervisor counts sessions
FAILED = "failed"


@dataclass(frozen=True)
class Desk:
    """What the threads share. line: held while one of them speaks."""

    server: TwoPartyServer
    silence: float
    speaking: socket.socket
    line: threading.Lock

    def serve(self, opening: Open, sock: socket.socket) -> None:
        """One session to its end, in a thread of its own; then it is told."""
        ending = FAILED  # a defect, of which the thread's traceback tells
        try:
            party = over_socket(sock, client=False, timeout=self.silence, threads=None)
            served = self._session(party, opening)
            self._tell(so_far(opening, served.texts, party))
            ending = served.ending
        except PeerError:  # before it began
            ending = "broken off"
        finally:
            self._tell(Finished(id=opening.id, ending=ending))

    def _session(self, party: Party, opening: Open) -> Served:
        guest = HostedGuest(opening, lambda texts: self._tell(so_far(opening, texts, party)))
        party.limit(self.server.limits.greeting)
        try:
            return self.server.session(party, guest=guest)
        finally:
            party.limit(self.server.limits.farewell)
            party.close()
            guest.leave()

    def _tell(self, message: Message) -> None:
        with self.line:
            self.speaking.send(control.encode(message))


class HostedGuest(Guest):
    """A client of a session here. told: called after each text with how many there were."""

    def __init__(self, opening: Open, told: Callable[[int], None]) -> None:
        super().__init__(Admission(Caps(1, 1, opening.texts)), HERE, opening.guest, lambda: None)
        self._told = told

    def over(self) -> None:
        self._told(self.texts)


def so_far(opening: Open, texts: int, party: Party) -> SoFar:
    """Of a session after so many texts."""
    cost = party.cost
    sent, received = int(cost["bytes_sent"]), int(cost["bytes_received"])
    return SoFar(id=opening.id, texts=texts, bytes_sent=sent, bytes_received=received)


def server_of(begin: Begin, cores: int) -> TwoPartyServer:
    """The model ready to serve, with the limits of so many sessions on so many cores. Raises FileError,
    CheckpointError, PlanError."""
    plan = plan_of(Path(begin.plan), begin.sha256)
    model = checkpoint.load(begin.folder, pooling=begin.pooling)
    crowding = begin.sessions / cores
    limits = limits_of(plan, bits_per_second=begin.bits_per_second, crowding=crowding)
    most = None if plan.embedding is None else texts_of_a_key(plan.numbers)
    return TwoPartyServer(plan, model, limits, most)


def plan_of(path: Path, sha256: str) -> TwoPartyPlan:
    """The plan of this file. Raises FileError for one that is absent, too long, damaged or another."""
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
    """From now on this process is killed when its parent dies."""
    die_with_parent()
    if os.getppid() != parent:  # it died before
        os._exit(1)


def serve(speaking: socket.socket) -> None:
    """Everything, until the other end is closed."""
    begun = control.received(speaking)
    if begun is None or not isinstance(begin := begun[0], Begin):
        return
    end_with(begin.parent)
    try:
        server = server_of(begin, share_threads(begin.threads))
    except TacitaError as error:
        speaking.send(control.encode(Failed(text=str(error)[:2000], hint=error.hint[:2000])))
        return
    desk = Desk(server, begin.silence, speaking, threading.Lock())
    speaking.send(control.encode(Ready()))
    while (came := control.received(speaking)) is not None:
        opening, sock = came
        if isinstance(opening, Open) and sock is not None:
            threading.Thread(target=desk.serve, args=(opening, sock), daemon=True).start()


def main() -> None:
    """Signals of a terminal or of a service's end are for the supervisor, which drains first."""
    ignore_signals()
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.stderr.flush()
    os._exit(0)  # sessions that run are over: their steps in the engine would be waited for


if __name__ == "__main__":
    main()
