"""What a client shows of a decrypted answer: rounded numbers, of a vector of length 1 where the model
normalises."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacita.tasks.embedding import LEAST_LENGTH, finished, length

MOST_DECIMALS = 15


def rounded(values: NDArray[np.float64], decimals: int, normalise: bool) -> tuple[float, ...]:
    """values: finite, (outputs,), as decrypted -> the answer. decimals: of the plan, for values as decrypted.

    Decryption leaves noise that depends on the key, and rounding covers it, so a step must stay as large
    beside the noise as the plan made it. Normalising v to v / |v| divides the noise by |v| as well, up to the
    part along v, which is no larger than an entry's. So the step is divided by |v|, rounded up to a power of
    ten: a vector of length 20 keeps one decimal more than the plan says, one of length 0.5 one less. No digit
    that is shown is finer than the decrypted vector's were.
    """
    kept = kept_decimals(values, decimals, normalise)
    return tuple(round(float(v), kept) + 0.0 for v in finished(values, normalise))


def kept_decimals(values: NDArray[np.float64], decimals: int, normalise: bool) -> int:
    """Those of `rounded`."""
    more = _digits(length(values)) if normalise else 0
    return min(max(decimals + more, 0), MOST_DECIMALS)


def _digits(size: float) -> int:
    """log10 of a length, rounded down; of an overflown one, whose answer is not trusted anyway, that of the
    largest."""
    return math.floor(math.log10(min(max(size, LEAST_LENGTH), 1.0 / LEAST_LENGTH)))
