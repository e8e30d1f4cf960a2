"""Messages between a supervisor and its process, over a pair of Unix sockets that keep messages apart
(SOCK_SEQPACKET).

    supervisor: Begin                   process: Ready, or Failed and its end
    supervisor: Open, with a socket     process: Wanted before each text of that session
    supervisor: Answered                process: SoFar after each token and text, at last Finished
    supervisor: Close, of a session that must end
    the end of one is the end of the other: no message says so

JSON, each message capped and checked by type. The process computes on bytes of clients, so that its words
are checked like those of a stranger.
"""

from __future__ import annotations

import socket
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tacita.errors import PeerError

MOST = 16 << 10  # bytes of a message
MOST_GUEST = 200  # characters of a guest's name

Guest = Annotated[str, Field(max_length=MOST_GUEST)]
Count = Annotated[int, Field(ge=0)]
Words = Annotated[str, Field(max_length=2000)]


class Message(BaseModel):
    """The base of every message: it has no fields but those that are declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Begin(Message):
    """What to serve: the fields of `spec.SessionSpec`. parent: the process that must not be outlived."""

    kind: Literal["begin"] = "begin"
    parent: int
    folder: str
    plan: str
    sha256: str
    threads: Count
    sessions: Count
    bits_per_second: float
    silence: float
    pooling: str | None


class Open(Message):
    """Begins a session on the socket that comes with this. guest: sessions of one name share places."""

    kind: Literal["open"] = "open"
    id: Count
    guest: Guest


class Ready(Message):
    """Says that the model is loaded."""

    kind: Literal["ready"] = "ready"


class Failed(Message):
    """Says that the model is not loaded, and why."""

    kind: Literal["failed"] = "failed"
    text: Words
    hint: Words


class Wanted(Message):
    """Asks for a client's text, or for the public part (texts 0), which will take so much: tokens at most,
    where it is written; bytes in both directions and seconds as planned. `Answered` says whether it is
    admitted."""

    kind: Literal["wanted"] = "wanted"
    id: Count
    texts: Annotated[int, Field(ge=0, le=1)]
    tokens: Count
    bytes: Count
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Answered(Message):
    """What the client is told: a refusal's reason and number, or 0 and 0."""

    kind: Literal["answered"] = "answered"
    id: Count
    reason: Count
    number: Count


class Close(Message):
    """Ends the session now."""

    kind: Literal["close"] = "close"
    id: Count


class SoFar(Message):
    """What a session used up to now: sent before each token and after each text, since the process may not
    live to send it later, and before its end. texts: that were admitted. over: whether none is under way."""

    kind: Literal["so far"] = "so far"
    id: Count
    texts: Count = 0
    tokens: Count = 0
    bytes_sent: Count = 0
    bytes_received: Count = 0
    over: bool = False


class Finished(Message):
    """Says that a session is over."""

    kind: Literal["finished"] = "finished"
    id: Count
    ending: Annotated[str, Field(max_length=40)]


Any = Begin | Open | Ready | Failed | Wanted | Answered | Close | SoFar | Finished
_ANY: TypeAdapter[Any] = TypeAdapter(Annotated[Any, Field(discriminator="kind")])


def pair() -> tuple[socket.socket, socket.socket]:
    """Returns the two ends of a control socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def encode(message: Message) -> bytes:
    """Returns the message's bytes."""
    return message.model_dump_json().encode()


def decode(data: bytes) -> Any:
    """Returns the message of these bytes. Raises PeerError for what is no message."""
    try:
        return _ANY.validate_json(data)
    except ValidationError as error:
        raise PeerError(
            f"two-party sessions: their process was told or said {len(data)} bytes that are no message "
            f"({error.error_count()} faults)",
            hint="a defect: please report it",
        ) from None


def received(control: socket.socket) -> tuple[Any, socket.socket | None] | None:
    """Returns the next message and the socket that came with it, in a thread that may wait; None at the end.

    Raises PeerError for a message that is too long or damaged; what came with it is closed.
    """
    data, descriptors, flags, _ = socket.recv_fds(control, MOST, 1)
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    if not data:
        return None
    try:
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise PeerError(f"two-party sessions: a message of more than {MOST} bytes or one socket")
        return decode(data), sockets[0] if sockets else None
    except PeerError:
        for each in sockets:
            each.close()
        raise
