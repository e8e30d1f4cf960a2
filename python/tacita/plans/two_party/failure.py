"""How likely a two-party plan makes a wrong answer by chance, whatever the text.

Counts the coefficients of all responses of one text (`two_party.count`), each at the engine's bound, so the
figure is an upper bound. The engine sums the exact ones as it goes; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tacita.two_party.count import COEFFICIENTS, Response

# log2 for one coefficient of a response to a sum of TERMS products; a test holds it to the engine's
COEFFICIENT = -65.0
TERMS = 8
MOST_FAILURE = -32.0  # log2 for one text, above which a plan is refused


def failure_log2(responses: Iterable[Response]) -> float:
    """log2 of a bound for the probability that chance alone spoils the answer to one text; -inf where nothing
    can fail."""
    weighted = sum(r.count * math.sqrt(max(1.0, r.terms / TERMS)) for r in responses)
    return math.log2(weighted * COEFFICIENTS) + COEFFICIENT if weighted else -math.inf


def in_words(log2: float) -> str:
    """The probability for people: "never", or a bound."""
    return "never" if log2 == -math.inf else f"with probability below 2^{log2:.1f} a text"
