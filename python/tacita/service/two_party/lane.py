"""What a process of sessions serves, for whom, and what is told of each session that is over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tacita.protocol.refusal import Refusal
from tacita.server.two_party import BITS_PER_SECOND
from tacita.service.ledger.rows import Used

SILENCE = 120.0
CRASHED, STOPPED = "crashed", "stopped"  # endings beside those of `server.two_party.Served`


@dataclass(frozen=True)
class TwoPartyLane:
    """One model by the two-party protocol.

    model: its name at the service. folder: of the model, as `checkpoint.load` takes it. plan: a file with
    `TwoPartyPlan.to_bytes()`; sha256: of that file in hex, which is the plan's hash. threads: that all its
    sessions compute on, 0 for all cores. sessions: at the same time. bits_per_second: of the link, by which
    the limits of time and memory are set (`server.limits`). silence: seconds after which a client that says
    nothing is given up. pooling: of an embedding model, as `checkpoint.load` takes it.
    """

    model: str
    folder: Path
    plan: Path
    threads: int
    sessions: int
    sha256: str
    bits_per_second: float = BITS_PER_SECOND
    silence: float = SILENCE
    pooling: str | None = None


class Guest(Protocol):
    """The client of one session, whose quota is its own affair. Called in the event loop's thread; no call
    waits or raises. used: by the session since it began."""

    @property
    def name(self) -> str:
        """At most 200 characters; sessions of one name share places."""

    def admit(self, used: Used, asked: Used) -> Refusal | None:
        """Reserves what a text, or the public part, will take. Returns why not, or None."""

    def note(self, used: Used) -> bool:
        """Charges what was used beyond what was reserved. False: the session must end."""

    def settle(self, used: Used) -> None:
        """No text is under way: what was reserved and not used is given back."""

    def ended(self, session: Ended) -> None:
        """The session is over, and settled."""


@dataclass(frozen=True)
class Ended:
    """A session that is over. guest: its client's name. texts: that were admitted. ending: in a word or two,
    as of `server.two_party.Served`; "failed" is a defect of ours. Where the process "crashed" under it or was
    "stopped", texts and bytes are those up to its last answer."""

    guest: str
    texts: int
    seconds: float
    bytes_sent: int
    bytes_received: int
    ending: str
