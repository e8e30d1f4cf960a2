"""What a client says that has a text written: its wish, and before each token whether it wants another.

    client: 3 and the wish     server: permission, or a refusal      (set-up, once a session)
                               server: the key of the text
    client: 1 for a token      (the protocol runs)                   server: its share of the token
    client: 0 to end; neither once all tokens of the wish are there

Who knows the key goes on with the text when the connection broke: a wish that names it, once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tacita.errors import PeerError
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.protocol.handshake import Link

WISH = struct.Struct("<IIIII16s")
KEY_BYTES, NO_KEY = 16, bytes(16)
MOST_TEMPERATURE = 8.0
ENOUGH, MORE = b"\0", b"\1"


@dataclass(frozen=True)
class TextWish:
    """rows: that are read first, padding included: a prompt's, or 1 of a text that goes on. most: tokens to
    be written at most. temperature, in thousandths on the way, and top_k: see
    `two_party.steps.writing.Writer.choose`. held: rows that were read before of the text of this key."""

    rows: int
    most: int
    temperature: float = 0.0
    top_k: int = 0
    held: int = 0
    key: bytes = NO_KEY

    def to_bytes(self) -> bytes:
        """As the client sends it, behind the kind of its wish."""
        thousandths = round(1000 * self.temperature)
        return WISH.pack(self.rows, self.most, thousandths, self.top_k, self.held, self.key)


def received(link: Link, plan: TwoPartyPlan) -> TextWish:
    """A client's wish, behind its kind. Raises PeerError for one that does not fit the plan."""
    rows, most, thousandths, top_k, held, key = WISH.unpack(link.receive(WISH.size))
    room = plan.room if held else plan.tokens
    known = key != NO_KEY and rows == 1 if held else key == NO_KEY
    fits = rows >= 1 and most >= 1 and held + rows + most - 1 <= room
    drawn = thousandths <= 1000 * MOST_TEMPERATURE and top_k <= (plan.vocab if thousandths else 0)
    if not (fits and known and drawn):
        raise PeerError(
            f"the client asks for {most} tokens behind {held} and {rows} rows, of {room}, at temperature "
            f"{thousandths / 1000:g} of the {top_k} likeliest",
            hint="another release?",
        )
    return TextWish(rows, most, thousandths / 1000, top_k, held, key)


def say(link: Link, *, more: bool) -> None:
    """The client's word before a token."""
    link.send(MORE if more else ENOUGH)


def more_wanted(link: Link) -> bool:
    """The server waits for that word. Raises PeerError for another."""
    word = link.receive(1)
    if word not in (ENOUGH, MORE):
        raise PeerError(f"the client said {word!r} before a token", hint="another release?")
    return word == MORE
