"""What a service and its processes of two-party sessions tell each other (see `server.child`): what a process
serves, for whom, and what each session used.

to the process:  SessionSpec, once; then Open, with a socket, and Close, of a session that must end
from it:         Wanted before each text of a session, which Answered answers; SoFar after each token and
                 text, at last Finished
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tacita.server.child import Message
from tacita.two_party.limits import PREPARED
from tacita.two_party.protocol.refusal import Refusal
from tacita.two_party.server import BITS_PER_SECOND

SILENCE = 120.0
CRASHED, STOPPED = "crashed", "stopped"  # endings beside those of `two_party.server.Served`
MOST_NAME, MOST_ENDING = 200, 40  # characters of a client's name, and of how a session ended


@dataclass(frozen=True)
class SessionSpec(Message):
    """One model by the two-party protocol.

    model: its name at the service. folder: of the model, as `checkpoint.load` takes it. plan: a file with
    `TwoPartyPlan.to_bytes()`; sha256: of that file in hex, which is the plan's hash. threads: that all its
    sessions compute on, 0 for all cores. sessions: at the same time. bits_per_second: of the link, by which
    the limits of time and memory are set (`two_party.limits`). silence: seconds after which a client that
    says nothing is given up. pooling: of an embedding model, as `checkpoint.load` takes it. documents: an
    index that the model searches. texts_of_a_key: of a hidden table; None for those that cannot betray it, 0
    for any number. prepared: texts of a session whose products are made before they come.
    """

    tag: ClassVar[str] = "serve"
    model: str
    folder: Path
    plan: Path
    threads: int
    sessions: int
    sha256: str
    bits_per_second: float = BITS_PER_SECOND
    silence: float = SILENCE
    pooling: str | None = None
    documents: Path | None = None
    texts_of_a_key: int | None = None
    prepared: int = PREPARED


@dataclass(frozen=True)
class Open(Message):
    """Begins a session on the socket that comes with this. client: sessions of one name share so many
    places."""

    tag: ClassVar[str] = "open"
    id: int
    client: str
    places: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.client) > MOST_NAME:
            raise ValueError("the client's name is too long")


@dataclass(frozen=True)
class Wanted(Message):
    """Asks for a client's text, or for the public part (texts 0), which will take so much: tokens at most,
    where it is written; bytes in both directions and seconds as planned. `Answered` says whether it is
    admitted."""

    tag: ClassVar[str] = "wanted"
    id: int
    texts: int
    tokens: int
    bytes: int
    seconds: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.texts > 1:
            raise ValueError("more than one text at a time")


@dataclass(frozen=True)
class Answered(Message):
    """What the client is told: a refusal's reason and number, or 0 and 0."""

    tag: ClassVar[str] = "answered"
    id: int
    reason: int
    number: int


@dataclass(frozen=True)
class Close(Message):
    """Ends the session now."""

    tag: ClassVar[str] = "close"
    id: int


@dataclass(frozen=True)
class SoFar(Message):
    """What a session used up to now: sent before each token and after each text, since the process may not
    live to send it later, and before its end. texts: that were admitted. over: whether none is under way."""

    tag: ClassVar[str] = "so far"
    id: int
    texts: int = 0
    tokens: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    over: bool = False


@dataclass(frozen=True)
class Finished(Message):
    """Says that a session is over."""

    tag: ClassVar[str] = "finished"
    id: int
    ending: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ending) > MOST_ENDING:
            raise ValueError("the ending is too long")


Order = SessionSpec | Open | Answered | Close
Reply = Wanted | SoFar | Finished


@dataclass(frozen=True)
class Used:
    """What was used: texts, tokens of texts that were written, bytes in both directions, seconds of
    evaluation."""

    texts: int = 0
    tokens: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: Used) -> Used:
        return self._each(other, operator.add)

    def __sub__(self, other: Used) -> Used:
        return self._each(other, operator.sub)

    def at_least(self, other: Used) -> Used:
        """Returns the larger of the two, item by item."""
        return self._each(other, max)

    def _each(self, other: Used, combine: Callable[[Any, Any], Any]) -> Used:
        return Used(**{name: combine(value, getattr(other, name)) for name, value in vars(self).items()})


class Client(Protocol):
    """The client of one session, whose quota is its own affair. Called in the event loop's thread; no call
    waits or raises. used: by the session since it began."""

    @property
    def name(self) -> str:
        """Returns the client's name, at most 200 characters; sessions of one name share places."""

    def places(self, sessions: int) -> int:
        """Returns how many of so many places sessions of this name may take."""

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
    """A session that is over. client: its client's name. texts: that were admitted. ending: in a word or two,
    as of `two_party.server.Served`; "failed" is a defect of ours. Where the process "crashed" under it or was
    "stopped", texts and bytes are those up to its last answer."""

    client: str
    texts: int
    seconds: float
    bytes_sent: int
    bytes_received: int
    ending: str
