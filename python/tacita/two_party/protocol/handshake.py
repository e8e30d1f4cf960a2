"""How a two-party session begins and what a client may ask then: plain bytes over a link that the engine
secures.

    client: magic, version            server: magic, version, length and sha256 of the public part; or a
    refusal
    client: 1 to have the part, 0     server: the part, if asked for
    client: sha256 of the plan        server: 1 if it is its own
    client: 1 to classify, 0 to end   server: permission, or a refusal   (the protocol runs)   server: its
    share of the answer
    client: 3 to have a text written, of a decoder: see `GenerateRequest` (2 was a request that knew no top_k)
    client: 4 to prepare one linear map of a text to come   server: permission, or a refusal that ends nothing
    where it has prepared enough   (the product runs)
    client: 5 and its link, kbit/s and microseconds of a round trip: both choose windows and look-ups for it
    from then on
    client: 6                         server: 6, so that the client may measure a round trip

Every length is fixed or capped, so that a peer that is not one of ours is told by its first bytes. A refusal
is as long as what it stands for.
"""

from __future__ import annotations

import hmac
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tacita.errors import PeerError
from tacita.plans.commitment import LinkSpeed
from tacita.two_party.program.program import Program
from tacita.two_party.protocol import public_part
from tacita.two_party.protocol.public_part import PublicPart
from tacita.two_party.protocol.refusal import Refusal

MAGIC = b"TACITA-2PC"
REFUSAL = b"TACITA-NO!"  # in place of the magic: then reason and number stand where version and length do
VERSION = 11  # 10 had requests of one head each, 9 wider responses
CLIENT_HELLO = struct.Struct("<10sH")
SERVER_HELLO = struct.Struct("<10sHQ32s")
CHUNK = 1 << 20
END, CLASSIFY, WRITE, PREPARE, LINK, ECHO = b"\0", b"\1", b"\3", b"\4", b"\5", b"\6"
ECHOES, ECHO_SECONDS = 8, 0.02  # round trips that a client measures at most, and what they may take together
SPEED, MOST_SPEED = struct.Struct("<II"), 10**9
HAVE, SEND = b"\0", b"\1"
REFUSED, AGREED = b"\0", b"\1"
PERMISSION = struct.Struct("<HQ")  # 0 and 0, or a refusal's reason and number
GRANTED = Refusal(0, 0)


class Link(Protocol):
    """One end of a connection: bytes out, exactly so many bytes in."""

    def send(self, data: bytes) -> None:
        """Sends all of it."""

    def receive(self, count: int) -> bytes:
        """Waits for exactly `count` bytes. Raises TacitaError when the peer is gone or late."""


class Cache(Protocol):
    """Public parts that were seen before, by their sha256."""

    def get(self, digest: bytes) -> bytes | None:
        """Returns the part, if it is there and whole."""

    def put(self, digest: bytes, data: bytes) -> None:
        """Keeps a part."""


Loaded = Callable[[int, int], None]  # bytes received, bytes in all


def run_client(
    link: Link, cache: Cache, loaded: Loaded = lambda done, total: None
) -> tuple[PublicPart, float]:
    """Makes the client's side of the handshake, up to the agreed plan. Returns what the server published, and
    the seconds of the last round trip, at whose other end nothing is computed.

    Raises PeerError, RefusedError, FileError (a part that fails its checks).
    """
    link.send(CLIENT_HELLO.pack(MAGIC, VERSION))
    magic, version, length, digest = SERVER_HELLO.unpack(link.receive(SERVER_HELLO.size))
    if magic == REFUSAL:
        raise Refusal(version, length).error()
    _require("server", magic, version)
    if not 0 < length <= public_part.MAX_BYTES:
        raise PeerError(
            f"the server announces a public part of {length} bytes", hint="is it a tacita server?"
        )
    cached = cache.get(digest)
    link.send(HAVE if cached else SEND)
    data = cached or _load(link, length, loaded)
    if not hmac.compare_digest(public_part.digest(data), digest):
        raise PeerError("the server's public part does not match its hash", hint="try again")
    part = public_part.decode(data)
    if not cached:
        cache.put(digest, data)
    began = time.monotonic()
    link.send(bytes.fromhex(part.plan.hash))
    agreed, seconds = link.receive(1) == AGREED, time.monotonic() - began
    if not agreed:
        raise PeerError(
            "the server runs another plan than it announced", hint="it was changed meanwhile: try again"
        )
    return part, seconds


def run_server(
    link: Link,
    data: bytes,
    plan_hash: str,
    *,
    refuse: Callable[[], Refusal | None] = lambda: None,
    loading: Callable[[], None] = lambda: None,
) -> None:
    """Makes the server's side of the handshake. data: the encoded public part. Raises PeerError for a client
    of another kind, release or plan.

    refuse: asked once the client has said hello; what it returns is sent and raised as RefusedError. loading:
    called before the part is sent, and may raise to send nothing.
    """
    magic, version = CLIENT_HELLO.unpack(link.receive(CLIENT_HELLO.size))
    _require("client", magic, version)
    if refusal := refuse():
        link.send(SERVER_HELLO.pack(REFUSAL, refusal.reason, refusal.number, bytes(32)))
        raise refusal.error()
    link.send(SERVER_HELLO.pack(MAGIC, VERSION, len(data), public_part.digest(data)))
    reply = link.receive(1)
    if reply not in (HAVE, SEND):
        raise PeerError(
            f"the client answered {reply!r} to the offer of the public part", hint="another release?"
        )
    if reply == SEND:
        loading()
        for at in range(0, len(data), CHUNK):
            link.send(data[at : at + CHUNK])
    agreed = hmac.compare_digest(link.receive(32), bytes.fromhex(plan_hash))
    link.send(AGREED if agreed else REFUSED)
    if not agreed:
        raise PeerError("the client holds another plan", hint="it must connect again")


def receive_wish(link: Link, kind: bytes = CLASSIFY) -> bytes:
    """Receives what the client wants next: an answer of the kind that the model gives, a map prepared, its
    link known or measured, or the end. Raises PeerError for anything else."""
    word = link.receive(1)
    if word not in (END, kind, PREPARE, LINK, ECHO):
        raise PeerError(f"the client asked for {word!r}", hint="another release, or a model of another kind?")
    return word


def ask(link: Link, *request: bytes) -> None:
    """Sends the client's request, by default to have a text classified, in so many messages, and receives the
    server's permission. Raises RefusedError."""
    for message in request or (CLASSIFY,):
        link.send(message)
    refusal = Refusal(*PERMISSION.unpack(link.receive(PERMISSION.size)))
    if refusal != GRANTED:
        raise refusal.error()


def least_round_trip(link: Link, first: float) -> float:
    """Returns the least seconds of a round trip: of one that took `first`, and of a few more, at whose other
    end nothing is computed. Of a long link one is enough. Raises PeerError for another reply."""
    least = spent = first
    for _ in range(ECHOES):
        if spent >= ECHO_SECONDS:
            break
        began = time.monotonic()
        link.send(ECHO)
        if (reply := link.receive(1)) != ECHO:
            raise PeerError(f"the server answered {reply!r} to an echo", hint="another release?")
        taken = time.monotonic() - began
        least, spent = min(least, taken), spent + taken
    return least


def send_speed(link: Link, speed: LinkSpeed) -> tuple[float, float]:
    """Tells the server what the link carries. Returns what both parties take for it."""
    numbers = round(speed.bits_per_second / 1e3), round(speed.round_trip * 1e6)
    message = SPEED.pack(*(min(max(1, number), MOST_SPEED) for number in numbers))
    link.send(LINK)
    link.send(message)
    return _speed(message)


def receive_speed(link: Link) -> tuple[float, float]:
    """Receives what the link carries, behind its word: bits a second, and seconds of a round trip."""
    return _speed(link.receive(SPEED.size))


def _speed(message: bytes) -> tuple[float, float]:
    kilobits, micros = (min(max(1, number), MOST_SPEED) for number in SPEED.unpack(message))
    return 1e3 * kilobits, 1e-6 * micros


def answer(link: Link, refusal: Refusal | None) -> None:
    """Sends the server's permission or refusal. Raises the refusal as RefusedError once it is sent."""
    permit(link, refusal or GRANTED)
    if refusal:
        raise refusal.error()


def permit(link: Link, message: Refusal) -> None:
    """Sends the server's permission, or a refusal that does not end the session."""
    link.send(PERMISSION.pack(message.reason, message.number))


def _load(link: Link, length: int, loaded: Loaded) -> bytes:
    parts, done = [], 0
    while done < length:
        parts.append(link.receive(min(CHUNK, length - done)))
        done += len(parts[-1])
        loaded(done, length)
    return b"".join(parts)


def _require(who: str, magic: bytes, version: int) -> None:
    if magic != MAGIC:
        raise PeerError(f"the other side is not a tacita {who}", hint="check host and port")
    if version != VERSION:
        raise PeerError(
            f"the {who} speaks version {version}, this program {VERSION}", hint="update the older one"
        )


# What a client says that has a text written: its request, and before each token whether it wants another.
#
#     client: 3 and the request     server: permission, or a refusal      (set-up, once a session)
#                                server: the key of the text
#     client: 1 for a token      (the protocol runs)                   server: its share of the token
#     client: 0 to end; neither once all tokens of the request are there
#
# Who knows the key goes on with the text when the connection broke: it is void once the next one is used.

REQUEST = struct.Struct("<IIIII16s")
KEY_BYTES, NO_KEY = 16, bytes(16)
MOST_TEMPERATURE = 8.0
ENOUGH, MORE = b"\0", b"\1"


@dataclass(frozen=True)
class GenerateRequest:
    """A client's request for a text. rows: that are read first, padding included: a prompt's, or 1 of a text
    that goes on. most: tokens to be written at most. temperature, in thousandths on the way, and top_k: see
    `two_party.writing.Writer.choose`. held: rows that were read before of the text of this key."""

    rows: int
    most: int
    temperature: float = 0.0
    top_k: int = 0
    held: int = 0
    key: bytes = NO_KEY

    def to_bytes(self) -> bytes:
        """Encodes the request as the client sends it, behind its kind."""
        thousandths = round(1000 * self.temperature)
        return REQUEST.pack(self.rows, self.most, thousandths, self.top_k, self.held, self.key)


def receive_request(link: Link, plan: Program) -> GenerateRequest:
    """Receives a client's request, behind its kind. Raises PeerError for one that does not fit the plan."""
    rows, most, thousandths, top_k, held, key = REQUEST.unpack(link.receive(REQUEST.size))
    room = plan.room if held else plan.tokens
    keyed = key != NO_KEY and rows == 1 if held else key == NO_KEY
    fits = rows >= 1 and most >= 1 and held + rows + most - 1 <= room
    drawn = thousandths <= 1000 * MOST_TEMPERATURE and top_k <= (plan.vocab if thousandths else 0)
    if not (fits and keyed and drawn):
        raise PeerError(
            f"the client asks for {most} tokens behind {held} and {rows} rows, of {room}, at temperature "
            f"{thousandths / 1000:g} of the {top_k} likeliest",
            hint="another release?",
        )
    return GenerateRequest(rows, most, thousandths / 1000, top_k, held, key)


def say(link: Link, *, more: bool) -> None:
    """Sends, before a token, whether the client wants it."""
    link.send(MORE if more else ENOUGH)


def more_wanted(link: Link) -> bool:
    """Receives whether the client wants another token. Raises PeerError for any other word."""
    word = link.receive(1)
    if word not in (ENOUGH, MORE):
        raise PeerError(f"the client said {word!r} before a token", hint="another release?")
    return word == MORE
