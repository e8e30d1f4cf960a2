"""What a plan states of the error of its answers: a bound that few texts exceed, and how many texts it rests
on.

    at most 0.0052 for 99 of 100 texts (from 98 texts)
    at most 0.0061 for 99.8 of 100 texts (from 98 texts)    # of a batch

The largest error of 98 texts is no such bound, so the tail is extended. The largest fifth, or the 20 largest,
are taken to lie exponentially above the next one, with the mean excess that they have at most by 95 %
confidence. The bound is where one of a hundred is left, of a batch one of five hundred, or the largest error
that was seen where that is more. `python -m bench noise-margins` counts how many of 1,000 texts exceed it,
`python -m bench silent-errors` how many of 2,000 in batches (docs/decisions/0039).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from tacita.limits import Above, OneOf, Range

SHARE, OF_BATCHES = 0.99, 0.998  # of texts that do not exceed the bound
FEWEST = 20  # texts from which a share is stated
MOST_ERROR, MOST_TEXTS = 1e9, 1 << 40  # that a plan may state
TAIL, MOST = 5, 20  # one of so many texts is in the tail, and no more than these: further out is closer
QUANTILE = -1.6449  # of the normal distribution, at 1 - 95 %


@dataclass(frozen=True)
class ErrorBound:
    """bound: of the largest error of a text's numbers as they are shown: approximations, noise and rounding.
    texts: from which it was estimated. share: of texts that do not exceed the bound; None where there were
    too few to say."""

    bound: Annotated[float, Range(0.0, MOST_ERROR, "error")]
    texts: Annotated[int, Range(0, MOST_TEXTS, "texts of the error")]
    share: Annotated[float | None, Above(0.0, math.nextafter(1.0, 0.0), "share of texts")]

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


# How fine a step of rounding may be beside the noise of decryption, which depends on the secret key.
#
# With a step of at least `QUIET` times the noise, at most one number in `QUIET` is rounded otherwise than
# without noise. That makes the known attacks impractical; it is not IND-CPA-D security.

MOST_DECIMALS = 3  # decimals
QUIET = 2.0**6


def quiet(decimals: int, noise: float) -> bool:
    """Whether answers with this noise may be shown to so many decimals."""
    return 0 <= decimals <= MOST_DECIMALS and 10.0**-decimals >= QUIET * noise


def finest(noise: float, decimals: int) -> float:
    """The least step that is quiet, of a vector, which has no decimals to count; not below that of
    `MOST_DECIMALS` decimals, nor below that of more `decimals`, which only who measures asks for."""
    return max(QUIET * noise, 10.0 ** -max(decimals, MOST_DECIMALS))


def between(noise: float, decimals: int) -> float:
    """The step of numbers that a plan shows to so many decimals: 1, or where that is quiet as well 1/2 or 1/5
    of the last one's. At noise of 1/128, where a tenth is too fine and only whole numbers would stay, it is
    1/2. From `MOST_DECIMALS` decimals on there is nothing finer.

    >>> between(1 / 128, 0), between(1 / 4096, 1), between(0.0, 3)
    (0.5, 0.02, 0.001)
    """
    last = 10.0**-decimals
    return (
        last
        if decimals >= MOST_DECIMALS
        else min(last, above(max(QUIET * noise, 2.0 * 10.0 ** -(decimals + 1))))
    )


def above(size: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is no smaller."""
    power = math.floor(math.log10(size))
    steps = (float(f"{digit}e{power}") for digit in (1, 2, 5, 10))
    return next(step for step in steps if step >= size * (1.0 - 1e-12))


def finer(size: float) -> float:
    """The least number of two digits that is no smaller: the step of a vector, whose entries nobody reads one
    by one.

    >>> finer(0.00152), finer(0.0096), finer(1.0)
    (0.0016, 0.0096, 1.0)
    """
    power = math.floor(math.log10(size)) - 1
    return float(f"{math.ceil(size / 10.0**power * (1.0 - 1e-12))}e{power}")


# What a plan says about how often texts leave its intervals. How that is measured: see `excesses`.

HELD_OUT, FOLDS, NOT_ESTIMATED = "held out", "folds", "not estimated"
Rate = Annotated[float, Range(0.0, 1.0)]


@dataclass(frozen=True)
class Population:
    """method: "held out", "folds" or "not estimated". texts: tested. outside, far: how many of them left an
    interval, or left it far. per_text: share of texts outside; per_request: expected share of requests in
    which some text may spoil others' answers (of one text: per_text), by the count or, of texts held out, by
    tails that say more. The bounds are of counts, with 95 % confidence (Clopper-Pearson; for folds about).
    """

    method: Annotated[str, OneOf((HELD_OUT, FOLDS, NOT_ESTIMATED))]
    texts: Annotated[int, Range(0, MOST_TEXTS)]
    outside: Annotated[int, Range(0, MOST_TEXTS)]
    far: Annotated[int, Range(0, MOST_TEXTS)]
    per_text: Rate
    per_text_bound: Rate
    per_request: Rate
    per_request_bound: Rate


UNKNOWN = Population(NOT_ESTIMATED, 0, 0, 0, 0.0, 1.0, 0.0, 1.0)
