"""What one text of two parties takes, by what is counted of it."""

from __future__ import annotations

from tacita.plans.commitment import LinkSpeed
from tacita.two_party.arithmetic.count import Cost

# On a 2-core Xeon with AVX-512, a core a party: fitted to six models from 0.2 to 61 s, which it meets within
# 11 %; three others were told within 5 %.
SECONDS_A_MB, SECONDS_A_BILLION, SECONDS_A_LAYER = 0.0179, 2.7, 0.07
NTT_MS = 0.1114  # of 2^16 points there, one 50-bit limb: `native.ntt_ms`
ROUNDS_A_LAYER = 180
SET_UP = 4_200_000  # bytes, once a session


def seconds(cost: Cost, layers: int, link: LinkSpeed | None = None, pace: float = 1.0) -> float:
    """Estimates the seconds of one text, a core a party; link None: both on one machine. pace: seconds here
    for one second of the measured machine.

    Processor time goes with what is sent, with the weights' products and, in small models, with the layers,
    whose rounds wait for one another. A link adds its bytes and rounds, though part of them overlaps with
    work.
    """
    return pace * (working(cost) + SECONDS_A_LAYER * layers) + over(cost, layers, link)


def working(cost: Cost) -> float:
    """Estimates the seconds of work alone."""
    return SECONDS_A_MB * cost.bits / 8e6 + SECONDS_A_BILLION * cost.multiplications / 1e9


def over(cost: Cost, layers: int, link: LinkSpeed | None) -> float:
    """Estimates the seconds on a link."""
    return link.seconds(cost.bits / 8, ROUNDS_A_LAYER * layers) if link else 0.0
