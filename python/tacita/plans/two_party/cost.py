"""What one text of a two-party plan sends and takes, both directions together, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tacita.plans.two_party.correlations import quicker
from tacita.plans.two_party.plan import TwoPartyPlan, counted

SECONDS_A_MB, SECONDS_A_BILLION, ROUNDS_A_LAYER = 0.0207, 4.0, 180
SET_UP = 4_200_000  # bytes, once a session


@dataclass(frozen=True)
class LinkSpeed:
    """bits_per_second, one way; round_trip: seconds."""

    bits_per_second: float
    round_trip: float


LINKS = {"LAN": LinkSpeed(1e9, 0.5e-3), "WAN": LinkSpeed(4e8, 4e-3)}


def expected_bytes(plan: TwoPartyPlan) -> int:
    """Of one text, without the set-up of the session."""
    return int(counted(plan).bits / 8)


def expected_transfers(plan: TwoPartyPlan) -> int:
    """Correlated transfers of one text."""
    return counted(plan).transfers


def expected_seconds(plan: TwoPartyPlan, link: LinkSpeed | None = None) -> float:
    """Of one text, a core a party on the measured machine (2-core EPYC, AVX-512); None: both on one machine.

    Processor time goes with what is sent (SECONDS_A_MB) and with the weights' products (SECONDS_A_BILLION),
    as fitted to four measured models from 1 to 84 s, which it meets within 20 %. A link adds its bytes and
    rounds, though part of them overlaps with work.
    """
    cost = counted(plan)
    megabytes = cost.bits / 8e6
    working = SECONDS_A_MB * megabytes + SECONDS_A_BILLION * cost.multiplications / 1e9
    if link is None:
        return working
    rounds = ROUNDS_A_LAYER * int(plan.config.layers)
    return working + 8e6 * megabytes / link.bits_per_second + rounds * link.round_trip


def for_link(plan: TwoPartyPlan, bits_per_second: float) -> TwoPartyPlan:
    """The plan with the correlated transfers that are quicker over such a link, for a session of one text."""
    return replace(plan, correlations=quicker(expected_transfers(plan), bits_per_second))
