"""Messages between the service and its process of two-party sessions, see `server.child`.

to the process:  Setup, once; then Open, with a socket, and Close, of a session that must end
from it:         Wanted before each text of a session, which Answered answers; SoFar after each token and
                 text, at last Finished
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacita.server.child import Message

MOST_NAME, MOST_ENDING = 200, 40  # characters of a client's name, and of how a session ended


@dataclass(frozen=True)
class Setup(Message):
    """What to serve: the fields of `spec.SessionSpec`."""

    tag: ClassVar[str] = "setup"
    folder: str
    plan: str
    sha256: str
    threads: int
    sessions: int
    bits_per_second: float
    silence: float
    pooling: str | None
    documents: str | None
    texts_of_a_key: int | None


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


Order = Setup | Open | Answered | Close
Reply = Wanted | SoFar | Finished
