"""A commitment to the weights: what a plan says of them to everybody, and the salt by which its server opens
it.

A plain hash of the weights would tell whoever holds a candidate whether it is this model. Salted, it tells
that to nobody who has not the salt, and binds the server nevertheless: it cannot find other weights that open
the same commitment.

The connection between two parties, for an estimate: how much it carries, how long it takes.

>>> link_of("lan")
LinkSpeed(bits_per_second=1000000000.0, round_trip=0.0005)
>>> link_of("100,20").seconds(1_000_000, rounds=3)    # a megabyte, and three round trips of 20 ms
0.14
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from tacita.errors import FileError, InputError

SALT_FILE = "weights.salt"  # beside the server's plan, mode 0600; never in a public folder
SALT_BYTES = 32
SALT = re.compile(rf"[0-9a-f]{{{2 * SALT_BYTES}}}")


def draw() -> str:
    """A fresh salt, hex, of the operating system's random generator."""
    return secrets.token_hex(SALT_BYTES)


def commit(salt: str, sha256: str) -> str:
    """sha256(salt || sha256), hex. Both are hex; sha256 is of weights and configuration."""
    return hashlib.sha256(bytes.fromhex(salt) + bytes.fromhex(sha256)).hexdigest()


def salt_beside(plan: Path) -> str:
    """The salt in the plan's folder; empty where there is none, as at a client. Raises FileError for another
    file there."""
    path = plan.with_name(SALT_FILE)
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            text = file.read(2 * SALT_BYTES + 2).decode("ascii", "replace").strip()
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error})", hint="is it the server's own file?") from error
    if not SALT.fullmatch(text):
        raise FileError(f"{path}: not the salt of a plan", hint="make plan and salt again with `tacita plan`")
    return text


MOST = 1e9  # Mbit/s or ms that a text may name


@dataclass(frozen=True)
class LinkSpeed:
    """bits_per_second, one way; round_trip: seconds."""

    bits_per_second: float
    round_trip: float

    def seconds(self, count: float, rounds: float) -> float:
        """Returns the seconds to carry `count` bytes, both directions together, in so many rounds that wait
        for each other."""
        return 8 * count / self.bits_per_second + rounds * self.round_trip


# the first two as in BumbleBee's evaluation; FAR: another continent
LINKS = {"LAN": LinkSpeed(1e9, 0.5e-3), "WAN": LinkSpeed(4e8, 4e-3), "FAR": LinkSpeed(1e8, 80e-3)}


def nearest_link(round_trip: float) -> LinkSpeed:
    """The named link whose round trip is nearest to so many seconds, by their ratio.

    >>> nearest_link(0.1) == LINKS["FAR"] and nearest_link(0.0) == LINKS["LAN"]
    True
    """
    return min(LINKS.values(), key=lambda link: abs(math.log(link.round_trip / max(round_trip, 1e-6))))


def link_of(text: str) -> LinkSpeed:
    """The link of a name (lan, wan, far) or of MBIT,MS: Mbit/s and milliseconds of a round trip. Raises
    InputError.
    """
    if (named := LINKS.get(text.upper())) is not None:
        return named
    try:
        megabits, milliseconds = (float(part) for part in text.split(","))
    except ValueError:
        megabits = milliseconds = math.nan
    if not (0.0 < megabits <= MOST and 0.0 <= milliseconds <= MOST):
        raise InputError(f"no link {text!r:.60}", hint="lan, wan, far, or Mbit/s,ms of a round trip: 100,20")
    return LinkSpeed(1e6 * megabits, 1e-3 * milliseconds)
