"""What a process of sessions serves, for whom, and what is told of each session that is over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tacita.plans.wire import FRAME_BYTES
from tacita.server.store.tables import Used
from tacita.two_party.protocol.party import TIMEOUT
from tacita.two_party.protocol.refusal import Refusal
from tacita.two_party.server import BITS_PER_SECOND

SILENCE = 120.0
CRASHED, STOPPED = "crashed", "stopped"  # endings beside those of `two_party.server.Served`


@dataclass(frozen=True)
class SessionSpec:
    """One model by the two-party protocol.

    model: its name at the service. folder: of the model, as `checkpoint.load` takes it. plan: a file with
    `TwoPartyPlan.to_bytes()`; sha256: of that file in hex, which is the plan's hash. threads: that all its
    sessions compute on, 0 for all cores. sessions: at the same time. bits_per_second: of the link, by which
    the limits of time and memory are set (`two_party.limits`). silence: seconds after which a client that
    says nothing is given up. pooling: of an embedding model, as `checkpoint.load` takes it.
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
        """Returns the client's name, at most 200 characters; sessions of one name share places."""

    def admit(self, used: Used, wanted: Used) -> Refusal | None:
        """Reserves what a text, or the public part, will take. Returns why not, or None."""

    def note(self, used: Used) -> bool:
        """Charges what was used beyond what was reserved. False: the session must end."""

    def settle(self, used: Used) -> None:
        """Gives back what was reserved and not used: no text is under way."""

    def ended(self, session: Ended) -> None:
        """Is called when the session is over, and settled."""


@dataclass(frozen=True)
class Ended:
    """A session that is over. guest: its client's name. texts: that were admitted. ending: in a word or two,
    as of `two_party.server.Served`; "failed" is a defect of ours. Where the process "crashed" under it or was
    "stopped", texts and bytes are those up to its last answer."""

    guest: str
    texts: int
    seconds: float
    bytes_sent: int
    bytes_received: int
    ending: str


# How uvicorn must be started for the two-party protocol: with bounds of memory for each WebSocket.

MOST_UNREAD = 4 * FRAME_BYTES  # bytes that wait for a client which reads none of them
KEEPALIVE = 30.0  # seconds between pings, so that what lies between keeps the connection


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSockets without two ways to hold memory and connections of the server: pings are answered
    whether or not the client reads the answers, and a connection is closed when the client has read what was
    sent before, however long that takes."""

    def handle_ping(self) -> None:
        """Answers a ping, but aborts a connection whose client does not read."""
        if self.transport.get_write_buffer_size() > MOST_UNREAD:
            self.transport.abort()
        else:
            super().handle_ping()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Gives the connection, with which the application is done, `close_timeout` seconds to close."""
        super().on_task_complete(task)
        self.loop.call_later(self.close_timeout, self.transport.abort)


# Keywords of `uvicorn.Config`. Messages wait one at a time with this class, whatever `ws_max_queue` says; it
# is for those that look at it. Ciphertexts and shares do not compress.
UVICORN: Mapping[str, Any] = MappingProxyType(
    {
        "ws": BoundedWebSocket,
        "ws_max_size": FRAME_BYTES,
        "ws_max_queue": 1,
        "ws_ping_interval": KEEPALIVE,
        "ws_ping_timeout": TIMEOUT,  # a party that computes does not read
        "ws_per_message_deflate": False,
    }
)
