"""The connection between two parties, for an estimate: how much it carries, how long it takes.

>>> link_of("lan")
LinkSpeed(bits_per_second=1000000000.0, round_trip=0.0005)
>>> link_of("100,20").seconds(1_000_000, rounds=3)    # a megabyte, and three round trips of 20 ms
0.14
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacita.errors import InputError

MOST = 1e9  # Mbit/s or ms that a text may name


@dataclass(frozen=True)
class LinkSpeed:
    """bits_per_second, one way; round_trip: seconds."""

    bits_per_second: float
    round_trip: float

    def seconds(self, count: float, rounds: float) -> float:
        """To carry so many bytes, both directions together, in so many rounds that wait for each other."""
        return 8 * count / self.bits_per_second + rounds * self.round_trip


LINKS = {"LAN": LinkSpeed(1e9, 0.5e-3), "WAN": LinkSpeed(4e8, 4e-3)}  # as in BumbleBee's evaluation


def link_of(text: str) -> LinkSpeed:
    """The link of a name (lan, wan) or of MBIT,MS: Mbit/s and milliseconds of a round trip. Raises
    InputError.
    """
    if (named := LINKS.get(text.upper())) is not None:
        return named
    try:
        megabits, milliseconds = (float(part) for part in text.split(","))
    except ValueError:
        megabits = milliseconds = math.nan
    if not (0.0 < megabits <= MOST and 0.0 <= milliseconds <= MOST):
        raise InputError(f"no link {text!r:.60}", hint="lan, wan, or Mbit/s,ms of a round trip: 100,20")
    return LinkSpeed(1e6 * megabits, 1e-3 * milliseconds)
