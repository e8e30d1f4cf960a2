"""How long a two-party client may take, and how much may wait for it.

All are bounds in wall-clock time for a whole step, so that a client that sends or reads a byte now and then
does not renew them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.plans.link import LINKS, LinkSpeed
from tacita.plans.two_party.plan import TwoPartyPlan

GREETING = 10.0  # seconds from the connection to the choice of a plan, TLS included
LOADING = 1e-6  # seconds a byte of the public part, in addition: 8 Mbit/s, whatever the link is said to be
IDLE = 30.0  # seconds between two texts
FAREWELL = 2.0  # seconds for the last bytes to leave
FLOOR, FACTOR = 60.0, 10.0  # seconds of a text: a floor, and a multiple of the estimate
GREETING_QUEUE = 1 << 20  # bytes that may wait before a plan is agreed: a chunk of the public part
LEAST_QUEUE = 16_000_000  # bytes that may wait later: the set-up of a session and a half more


@dataclass(frozen=True)
class Limits:
    """Seconds of each step, and `queue`: bytes that may wait for a client to read them.

    text: one text from the permission to the answer, the set-up of the session included.
    """

    text: float
    queue: int
    greeting: float = GREETING
    loading: float = LOADING
    idle: float = IDLE
    farewell: float = FAREWELL

    def part(self, size: int) -> float:
        """Seconds to fetch a public part of so many bytes and to choose the plan."""
        return self.greeting + self.loading * size


def limits_of(plan: TwoPartyPlan, *, bits_per_second: float, crowding: float = 1.0) -> Limits:
    """Limits of a plan's texts over such a link. crowding: sessions at the same time for each core, at least
    1.

    The public part may take ten times what it needs over that link. A text may take ten times its estimate,
    times the crowding, and a minute. The queue holds what two layers send: the protocols need room for the
    messages of one round, of which a layer has many.
    """
    link = LinkSpeed(bits_per_second, LINKS["WAN"].round_trip)
    text = FLOOR + FACTOR * max(1.0, crowding) * plan.predicted_seconds(link)
    queue = max(LEAST_QUEUE, 2 * plan.predicted_bytes() // plan.config.layers)
    return Limits(text, queue, loading=max(LOADING, FACTOR * 8 / bits_per_second))
