"""What one text of two parties takes, by what is counted of it."""

from __future__ import annotations

from tacita.plans.link import LinkSpeed
from tacita.two_party.count import Cost

SECONDS_A_MB, SECONDS_A_BILLION, ROUNDS_A_LAYER = 0.0207, 4.0, 180
SET_UP = 4_200_000  # bytes, once a session


def seconds(cost: Cost, layers: int, link: LinkSpeed | None = None, pace: float = 1.0) -> float:
    """Of one text, a core a party on the measured machine (2-core EPYC, AVX-512); None: both on one machine.
    pace: seconds here for one second there.

    Processor time goes with what is sent (SECONDS_A_MB) and with the weights' products (SECONDS_A_BILLION),
    as fitted to four measured models from 1 to 84 s, which it meets within 20 %. A link adds its bytes and
    rounds, though part of them overlaps with work.
    """
    working = SECONDS_A_MB * cost.bits / 8e6 + SECONDS_A_BILLION * cost.multiplications / 1e9
    return pace * working + (link.seconds(cost.bits / 8, ROUNDS_A_LAYER * layers) if link else 0.0)
