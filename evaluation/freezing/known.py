"""Frozen figures that are worse today, each by how much and why. Whatever is worse still is forbidden.

They are shortfalls, said again at every check: `worse, known`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NAMES = (
    "the plan names its nodes, and the magnitude of each: more bytes of JSON in the greeting, once a session"
)
COUNTED = "the estimate counts the last layer's query as its run does, whose bytes are those of before"
FEW = "norms of few rows go by transfers in place of ciphertexts: a tenth fewer bytes in all"


@dataclass(frozen=True)
class Known:
    """most: what the figure may be. reason: why it is not lower."""

    most: float
    reason: str


# part -> path of the figure -> what is known of it
KNOWN: Mapping[str, Mapping[str, Known]] = {
    "sst2-two-party": {
        "estimate/bytes": Known(41_674_240, COUNTED),
        "estimate/transfers": Known(4_101_000, FEW),
        "session/phases/greeting/bytes_received": Known(3_280_900, NAMES),
        "session/whole/bytes_received": Known(43_509_300, NAMES),
    },
    "minilm-two-party": {
        "session/phases/greeting/bytes_received": Known(95_525_300, NAMES),
        "session/whole/bytes_received": Known(469_867_900, NAMES),
    },
}


def known(part: str, path: str, value: object) -> str:
    """Why a part's figure may be worse; empty where it may not."""
    found = KNOWN.get(part, {}).get(path)
    return found.reason if found and isinstance(value, int | float) and value <= found.most else ""
