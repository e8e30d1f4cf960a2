"""What a client shows of a decrypted answer: rounded numbers, of a vector of length 1 where the model
normalises."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacita.plans.head import Head, shown_step
from tacita.tasks.embedding import LEAST_LENGTH, finished, length

LARGEST = 1e280  # that is shown; dividing it by a step stays finite


def rounded(plan: Head, values: NDArray[np.float64]) -> tuple[float, ...]:
    """values: finite, (outputs,), as decrypted -> the answer, in multiples of `rounding_step`.

    Decryption leaves noise that depends on the key, and rounding covers it, so a step must stay as large
    beside the noise as the plan made it: its `logit_step` or, normalised, its `step`. Normalising v to
    v / |v| divides the noise by |v| as well, up to the part along v, which is no larger than an entry's. So
    the step is divided by |v| and rounded up to two digits, so that it tells little of |v|: of a vector of
    length 20 a step of 0.01 becomes 0.0005, of one of length 0.3 it becomes 0.034. No digit that is shown is
    finer than the decrypted vector's were.
    """
    step = rounding_step(plan, values)
    places = max(0, 1 - math.floor(math.log10(step)))  # a step has two digits
    numbers = np.clip(finished(values, plan.normalise), -LARGEST, LARGEST)
    steps = np.round(numbers / step)
    return tuple(round(float(v) * step, places) + 0.0 for v in steps)


def rounding_step(plan: Head, values: NDArray[np.float64]) -> float:
    """That of `rounded`."""
    return shown_step(plan, _size(values))


def _size(values: NDArray[np.float64]) -> float:
    """The length; of an overflown vector, whose answer is not trusted anyway, that of the largest."""
    return min(max(length(values), LEAST_LENGTH), 1.0 / LEAST_LENGTH)
