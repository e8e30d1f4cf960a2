"""Row sums of several windows in one ciphertext, so that one bootstrap refreshes them all.

A window's sums are one number for each token and head, in every position of the head. With three windows of
four heads of 64 positions, window i keeps its sums in positions [16 i, 16 i + 16) of each head only; the
three then add up to one ciphertext, and a linear map brings each back to all 64 positions where it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacita.approx.iterative import GoldschmidtSpec
from tacita.approx.spec import Spec
from tacita.packings.arrays import Array, Diagonal
from tacita.packings.rows.heads.windows import HeadWindow
from tacita.packings.sizes import ceil_power
from tacita.packings.stored import divide, inverted
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan

KEPT = 8  # plans: the same in all layers


@dataclass(frozen=True)
class Gathered:
    """windows: in order, each with sums of its own."""

    windows: tuple[HeadWindow, ...]

    @staticmethod
    def of(windows: Sequence[HeadWindow]) -> Gathered | None:
        """None where there are no two windows, or more of them than a head has positions."""
        few = len(windows) < 2 or ceil_power(len(windows)) > windows[0].width
        return None if few else Gathered(tuple(windows))

    @property
    def part(self) -> int:
        """Positions of a head that one window's sums have; at most half of the head."""
        return self.windows[0].width // ceil_power(len(self.windows))

    def places(self, number: int) -> Array:
        """bool [window]: where the sums of the window of this number are."""
        window = self.windows[number]
        p = np.arange(window.shape.window)
        mine: Array = (p % window.width // self.part == number) & (p < window.width * len(window.heads))
        return mine

    @property
    def filled(self) -> Array:
        """bool [window]: where any sums are."""
        filled: Array = np.any([self.places(number) for number in range(len(self.windows))], axis=0)
        return filled

    def divide(self, be: Backend, numerators: Sequence[Ct], sums: Ct, spec: Spec) -> list[Ct]:
        """As `stored.divide` for each window's numerator. One level more below the sums.

        A polynomial is evaluated once, before its values are spread; an iteration needs each numerator.
        """
        if isinstance(spec, GoldschmidtSpec):
            each = be.linear([sums], self.spread)
            return [divide(be, numerator, s, spec) for numerator, s in zip(numerators, each, strict=True)]
        each = be.linear([inverted(be, sums, spec)], self.spread)
        return [be.mul(numerator, s) for numerator, s in zip(numerators, each, strict=True)]

    @property
    def spread(self) -> LinearPlan:
        """Sums of all windows -> one ciphertext a window, each sum at all positions of its head, zero
        elsewhere. One level; fewer than two rotations for each part of a head."""
        return _spread(self)


@lru_cache(maxsize=KEPT)
def _spread(gathered: Gathered) -> LinearPlan:
    windows, part = gathered.windows, gathered.part
    diagonals: Diagonal = {}
    for number, window in enumerate(windows):
        p = np.arange(window.shape.window)
        for block in range(window.width // part):
            at = (p % window.width // part == block) & (p < window.width * len(window.heads))
            diagonals[number, 0, (number - block) * part] = np.where(at, 1.0, 0.0)
    return LinearPlan.from_diagonals(diagonals, n_inputs=1, n_outputs=len(windows))
