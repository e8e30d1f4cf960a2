"""Which of many numbers in slots is the largest: a tournament in rounds, each of many ways at once.

The numbers of a round lie side by side and repeat over all slots, so a slot vector holds as many copies of
them as fit, and in each copy every number meets another one:

    32,768 slots, 2,048 numbers in 16 copies: number t meets t + 128 k in copy k: groups of 16
               the 128 winners in 256 copies: number t meets t + k in copy k: one group of 128

A round is one comparison of all slots (`approx.comparison`), a product over the copies, which is 1 where a
number beats all of its group, and a sum over the group of what this keeps: the winners, side by side, each
slot of every copy again. No masks: what repeats is summed and multiplied by cyclic rotations. At the end the
products of all rounds multiplied are 1 at the largest number and 0 elsewhere.

A tournament of pairs takes a comparison for each doubling, eleven for 2,048; this one takes two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacita.packings.arrays import Array
from tacita.packings.rotations import rotate_sum
from tacita.packings.sizes import is_power, refuse
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan

Flags = NDArray[np.bool_]
WON = 0.5  # a difference, as a share of their range, that every comparison tells


@dataclass(frozen=True, eq=False)
class Round:
    """size numbers, repeated with this period; each meets `ways` - 1 others, at distances of a stride.

    absent: (size,) where there is no number: stored as -1, it loses against each that is there, and of two
    absent ones the later loses.
    """

    size: int
    ways: int
    absent: Flags

    @property
    def stride(self) -> int:
        """Between the numbers of a group, and how many groups there are."""
        return self.size // self.ways

    @cached_property
    def meeting(self) -> LinearPlan:
        """Half the difference of each number and the one that it meets; of none with itself. One level."""
        diagonals = {(0, 0, k * self.stride): self._copy(k) * -0.5 for k in range(1, self.ways)}
        own = 0.5 * (1.0 - self._copy(0))
        return LinearPlan.from_diagonals({(0, 0, 0): own, **diagonals}, n_inputs=1, n_outputs=1)

    @cached_property
    def given(self) -> Array:
        """What is added to the differences: who wins where no comparison decides."""
        first = np.arange(self.size)
        found = [np.full(self.size, WON)]
        for k in range(1, self.ways):
            other = (first + k * self.stride) % self.size
            both = self.absent & self.absent[other]
            found.append(np.where(both, np.where(first < other, WON, -WON), 0.0))
        return np.concatenate(found)

    @property
    def winners(self) -> Flags:
        """absent, of the next round: where a whole group is."""
        return np.asarray(self.absent.reshape(self.ways, self.stride).all(axis=0))

    def _copy(self, number: int) -> Array:
        """1 in one of the copies that a period of differences has, 0 in the others."""
        return np.repeat(np.arange(self.ways) == number, self.size).astype(np.float64)

    def meet(self, be: Backend, numbers: Ct) -> Ct:
        """numbers in [-1, 1] -> their differences, halved. One level."""
        return be.add_vector(be.linear([numbers], self.meeting)[0], self.given)

    def win(self, be: Backend, larger: Ct) -> Ct:
        """1 where the number in this slot is larger than the one that it meets -> in all copies 1 where it is
        larger than all of them. log2(ways) levels and products."""
        step = self.size
        while step < self.size * self.ways:
            larger = be.mul(larger, be.rotate(larger, step))
            step *= 2
        return larger

    def keep(self, be: Backend, numbers: Ct, won: Ct) -> Ct:
        """The winner of each group, where its first number was and in every group's copy. One level."""
        return rotate_sum(be, be.mul(numbers, won), self.ways, self.stride)


def rounds_of(slots: int, size: int, count: int, most: int = 0) -> tuple[Round, ...]:
    """For `count` numbers in blocks of `size`, both rounds and groups as few as slots admit. most: of a
    group, 0 for what fits. Raises ShapeError where two copies do not fit."""
    return tuple(_rounds(slots, size, np.arange(size) >= count, most))


def _rounds(slots: int, size: int, absent: Flags, most: int) -> Iterator[Round]:
    if not is_power(size) or 2 * size > slots:
        raise refuse("vector", f"the largest of {size} numbers in {slots} slots", "use a larger ring")
    while size > 1:
        ways = min(size, slots // size, most or size)
        found = Round(size, ways, absent)
        yield found
        size, absent = found.stride, found.winners
