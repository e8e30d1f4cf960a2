"""What a process of sessions serves, and what is told of each session that is over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacita.server.two_party import BITS_PER_SECOND

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


@dataclass(frozen=True)
class Ended:
    """A session that is over. ending: in a word or two, as of `server.two_party.Served`; "failed" is a defect
    of ours. Where the process "crashed" under it or was "stopped", texts and bytes are those up to its last
    answer."""

    guest: str
    texts: int
    seconds: float
    bytes_sent: int
    bytes_received: int
    ending: str
