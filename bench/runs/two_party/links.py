"""The links of BumbleBee's evaluation and a far one: what a run on loopback would take over them, by bytes
and rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacita.plans.commitment import LINKS as NAMED


@dataclass(frozen=True)
class Link:
    """bits_per_second of one direction (0: no limit); round_trip in seconds."""

    name: str
    bits_per_second: float
    round_trip: float

    @property
    def throttled(self) -> bool:
        """Whether the channel must slow messages down."""
        return self.bits_per_second > 0

    def seconds(self, wall: float, count: float, rounds: float) -> float:
        """A loopback run of `wall` seconds that moved `count` bytes, carried over this link.

        An upper bound: nothing overlaps, both directions share the bandwidth, and every round takes a full
        round trip.
        """
        return wall + (8 * count / self.bits_per_second if self.throttled else 0.0) + rounds * self.round_trip


LOOPBACK = Link("loopback", 0.0, 0.0)
LAN, WAN, FAR = (Link(name.lower(), link.bits_per_second, link.round_trip) for name, link in NAMED.items())
LINKS = {link.name: link for link in (LOOPBACK, LAN, WAN, FAR)}


def computed(figures: dict[str, Any], link: Link) -> dict[str, Any]:
    """wall + bytes / bandwidth + rounds * round trip; from a loopback run only."""
    if link != LOOPBACK:
        return {}
    count = 1e6 * figures["megabytes"]
    return {
        f"{other.name}_seconds": other.seconds(figures["wall_seconds"], count, figures["rounds"])
        for other in (LAN, WAN, FAR)
    }
