"""A server's no, in numbers: why, and the bound that was reached. No text of one party is shown by the other.

It stands where the client expects the server's welcome or its permission to go on, so that a client is
told at once and by type.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tacita.errors import RefusedError


class Reason(IntEnum):
    """What a server has no more of."""

    FULL = 1  # sessions
    ADDRESS = 2  # sessions of the client's address
    CLIENT = 3  # texts of this client
    KEY = 4  # texts under the key of the hidden table
    FORGOTTEN = 5  # time for a text whose connection broke
    QUOTA = 6  # the client's tokens, bytes or seconds of today
    PREPARED = 7  # texts of a session that are prepared


WORDS = {
    Reason.FULL: ("the server is full ({})", "session", "try again later"),
    Reason.ADDRESS: ("the server takes {} of one address or client at a time", "session", "try again later"),
    Reason.CLIENT: ("the server answers {} of one client, and this one had them", "text", "ask its operator"),
    Reason.KEY: (
        "the key of the server's hidden table has served its {}",
        "text",
        "connect again: it makes a new key",
    ),
    Reason.FORGOTTEN: (
        "the server keeps a text for {} after its connection broke, and no longer has this one",
        "second",
        "begin again",
    ),
    Reason.QUOTA: (
        "this takes more than is left of this client's quota, which is whole again in {}",
        "second",
        "wait, ask for less, or ask its operator",
    ),
    Reason.PREPARED: ("the server prepares {} of a session ahead", "text", "ask one of them first"),
}


@dataclass(frozen=True)
class Refusal:
    """A refusal as it is sent. reason: a `Reason`, or the number that a newer server sent. number: the bound
    that was reached."""

    reason: int
    number: int

    def error(self) -> RefusedError:
        """Returns what the client raises, and the server notes."""
        if self.reason not in set(Reason):
            return RefusedError(
                f"the server refuses for reason {self.reason}", hint="update this program", reason=0
            )
        text, noun, hint = WORDS[Reason(self.reason)]
        count = f"{self.number} {noun}" if self.number == 1 else f"{self.number} {noun}s"
        return RefusedError(text.format(count), hint=hint, reason=self.reason)
