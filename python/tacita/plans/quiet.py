"""How fine a step of rounding may be beside the noise of decryption, which depends on the secret key.

With a step of at least `QUIET` times the noise, at most one number in `QUIET` is rounded otherwise than
without noise. That makes the known attacks impractical; it is not IND-CPA-D security.
"""

from __future__ import annotations

import math

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
