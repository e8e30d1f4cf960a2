"""What a plan states of the error of its answers: a bound that few texts exceed, and how many texts it rests
on.

    at most 0.0052 for 99 of 100 texts (from 98 texts)
    at most 0.0061 for 99.8 of 100 texts (from 98 texts)    # of a batch

The largest error of 98 texts is no such bound: with probability 0.63 more than one text in a hundred exceeds
it. So the tail is extended. The largest fifth, or the 20 largest, are taken to lie exponentially above the
next one, with the mean excess that they have at most by 95 % confidence. The bound is where one of a hundred
is left, of a batch one of five hundred, or the largest error that was seen where that is more: who asks
hundreds of texts at once looks at no answer by itself. Errors with a normal distribution end sooner and are
overestimated by a fifth; `evaluation/noise_margins.py` counts how many of 1,000 texts exceed the bound,
`evaluation/silent_errors.py` how many of 2,000 in batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SHARE, OF_BATCHES = 0.99, 0.998  # of texts that do not exceed the bound
FEWEST = 20  # texts from which a share is stated
TAIL, MOST = 5, 20  # one of so many texts is in the tail, and no more than these: further out is closer
QUANTILE = -1.6449  # of the normal distribution, at 1 - 95 %


@dataclass(frozen=True)
class ErrorBound:
    """bound: of the largest error of a text's numbers as they are shown: approximations, noise and rounding.
    texts: from which it was estimated. share: of texts that do not exceed the bound; None where there were
    too few to say."""

    bound: float
    texts: int
    share: float | None

    def __str__(self) -> str:
        few = f"of {self.texts} texts, too few to bound others"
        if self.share is None:
            return f"at most {self.bound:.4f} {few}"
        return f"at most {self.bound:.4f} for {100 * self.share:g} of 100 texts (from {self.texts} texts)"


NO_TEXTS = ErrorBound(0.0, 0, None)


def share_of(texts: int, batch: int) -> float | None:
    """What is stated of so many texts that were tried, for requests of so many."""
    if texts < FEWEST:
        return None
    return SHARE if batch == 1 else OF_BATCHES


def tolerance_bound(errors: Sequence[float], share: float | None = SHARE) -> float:
    """The bound on this share of unseen texts with 95 % confidence; of fewer than `FEWEST` the largest error.

    errors: at least one, of different texts, none negative.
    """
    ordered = sorted(errors)
    if share is None or len(ordered) < FEWEST:
        return ordered[-1]
    count = min(len(ordered) // TAIL, MOST)
    start = ordered[-count - 1]
    excess = sum(error - start for error in ordered[-count:])
    mean = 2.0 * excess / _least_chi_square(2 * count)
    return max(ordered[-1], start + mean * math.log(count / (len(ordered) * (1.0 - share))))


def _least_chi_square(freedom: int) -> float:
    """The 5 % quantile of the chi-square distribution by Wilson and Hilferty, within 1 % from 8 degrees on:
    twice the sum of n exponential excesses is so distributed with 2n degrees."""
    variance = 2.0 / (9.0 * freedom)
    return freedom * (1.0 - variance + QUANTILE * math.sqrt(variance)) ** 3
