"""The likeliest word of a vocabulary and nothing else: logits -> 1 at the largest, 0 at all others.

    choice.logits        of the vector, side by side, repeated over all slots        1 level
    choice.meet0         half the differences of numbers that meet (`tournament`)    1
    choice.compare0      a refresh through a step: about 1 or -1                     to the top, less 3 to 8
    choice.sharpen0      1 or 0, to the stated error                                 2 to 5
    choice.win0          1 where a number beats its group                            log2(ways)
    choice.keep0         the winners                                                 1
    choice.meet1 ...     the next round, until one is left
    choice.join1         the product of the rounds so far                            1
    answer               smoothed, so that it is 0 or 1 to the noise                 4

The client gets a one-hot vector where the two largest logits are the stated gap apart. Nearer ones share: the
two words have numbers between 0 and 1, which say that much about their distance, and of no other word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from tacita.approx.comparison import Comparison, smooth_spec
from tacita.layouts.arrays import Array, ceil_power, is_power, refuse
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.runs import Response
from tacita.layouts.vector import AnswerBlocks, VectorLayout
from tacita.packings.base import Operation
from tacita.packings.encoding import apply, apply_all
from tacita.packings.operations import ANSWER, CHECK
from tacita.packings.shared.answer import turned, twice
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan

# Which of many numbers in slots is the largest: a tournament in rounds, each of many ways at once.
#
# The numbers of a round lie side by side and repeat over all slots, so a slot vector holds as many copies of
# them as fit, and in each copy every number meets another one:
#
#     32,768 slots, 2,048 numbers in 16 copies: number t meets t + 128 k in copy k: groups of 16
#                the 128 winners in 256 copies: number t meets t + k in copy k: one group of 128
#
# A round is one comparison of all slots (`approx.comparison`), a product over the copies, which is 1 where a
# number beats all of its group, and a sum over the group of what this keeps: the winners, side by side, each
# slot of every copy again. No masks: what repeats is summed and multiplied by cyclic rotations. At the end
# the products of all rounds multiplied are 1 at the largest number and 0 elsewhere.
#
# A tournament of pairs takes a comparison for each doubling, eleven for 2,048; this one takes two.

Flags = NDArray[np.bool_]
WON = 0.5  # a difference, as a share of their range, that every comparison tells


@dataclass(frozen=True, eq=False)
class Round:
    """One round of the tournament: `size` numbers, repeated with this period; each meets `ways` - 1 others,
    at distances of a stride.

    absent: (size,) where there is no number: stored as -1, it loses against each that is there, and of two
    absent ones the later loses.
    """

    size: int
    ways: int
    absent: Flags

    @property
    def stride(self) -> int:
        """The distance between the numbers of a group, which is also the number of groups."""
        return self.size // self.ways

    @cached_property
    def meeting(self) -> LinearPlan:
        """Plans half the difference of each number and the one that it meets; none of a number with itself.
        One level."""
        diagonals = {(0, 0, k * self.stride): self._copy(k) * -0.5 for k in range(1, self.ways)}
        own = 0.5 * (1.0 - self._copy(0))
        return LinearPlan.from_diagonals({(0, 0, 0): own, **diagonals}, n_inputs=1, n_outputs=1)

    @cached_property
    def defaults(self) -> Array:
        """What is added to the differences: who wins where no comparison decides."""
        first = np.arange(self.size)
        parts = [np.full(self.size, WON)]
        for k in range(1, self.ways):
            other = (first + k * self.stride) % self.size
            both = self.absent & self.absent[other]
            parts.append(np.where(both, np.where(first < other, WON, -WON), 0.0))
        return np.concatenate(parts)

    @property
    def winners(self) -> Flags:
        """The `absent` of the next round: where a whole group is absent."""
        return np.asarray(self.absent.reshape(self.ways, self.stride).all(axis=0))

    def _copy(self, number: int) -> Array:
        """1 in one of the copies that a period of differences has, 0 in the others."""
        return np.repeat(np.arange(self.ways) == number, self.size).astype(np.float64)

    def meet(self, be: Backend, numbers: Ct) -> Ct:
        """Maps numbers in [-1, 1] to their differences, halved. One level."""
        return be.add_vector(be.linear([numbers], self.meeting)[0], self.defaults)

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
    """Rounds for `count` numbers in blocks of `size`; both rounds and groups are as few as slots admit. most:
    numbers in a group, 0 for what fits. Raises ShapeError where two copies do not fit."""
    return tuple(_rounds(slots, size, np.arange(size) >= count, most))


def _rounds(slots: int, size: int, absent: Flags, most: int) -> Iterator[Round]:
    if not is_power(size) or 2 * size > slots:
        raise refuse("vector", f"the largest of {size} numbers in {slots} slots", "use a larger ring")
    while size > 1:
        ways = min(size, slots // size, most or size)
        current = Round(size, ways, absent)
        yield current
        size, absent = current.stride, current.winners


Cts = tuple[Ct, ...]
NUMBERS = "choice.numbers"
LOGITS = f"{NUMBERS}0"


@dataclass(frozen=True, eq=False)
class Choice:
    """The tournament of a vocabulary. plan, bias: of the logits, divided by their bound, -1 where there is no
    word."""

    blocks: AnswerBlocks
    plan: LinearPlan
    bias: Array
    rounds: tuple[Round, ...]
    comparison: Comparison

    @staticmethod
    def build(
        dense: tuple[Array, Array],
        layout: VectorLayout,
        bounds: tuple[float, float],
        comparison: Comparison,
        most: int = 0,
    ) -> Choice:
        """Builds the map to logits and the rounds. dense: weight (words, hidden) and bias. bounds: of the
        vector, of the logits. most: as of `rounds_of`. Raises ShapeError for a vocabulary that does not fit
        three times into the slots."""
        (weight, bias), (entry, bound) = dense, bounds
        width = ceil_power(max(len(bias), layout.period))
        blocks = AnswerBlocks(layout.slots, width, len(bias), False, 1.0)
        short = width - len(bias)
        rows = np.pad(weight * (entry / bound), ((0, short), (0, layout.period - layout.size)))
        plan = LinearPlan.from_diagonals({(0, 0, k): row for k, row in turned(rows)}, n_inputs=1, n_outputs=1)
        added = np.pad(bias / bound, (0, short), constant_values=-1.0)
        rounds = rounds_of(layout.slots, width, len(bias), most)
        return Choice(blocks, plan, added, rounds, comparison)

    @property
    def response(self) -> Response:
        """The layout of the response."""
        return self.blocks.response

    def operations(self, pooled: str) -> list[Operation]:
        """The operations of the choice, the last of which writes the response. pooled: the vector's
        tensor."""
        stages, joined = [Operation.of("choice.logits", (pooled,), LOGITS, self._logits)], _won(0)
        for number in range(len(self.rounds)):
            stages += self._round(number)
            if number:
                before, joined = joined, f"choice.joined{number}"
                stages.append(Operation.of(f"choice.join{number}", (before, _won(number)), joined, _joined))
        return [*stages, Operation.of(ANSWER, (joined, CHECK), ANSWER, self._answer)]

    def _round(self, number: int) -> list[Operation]:
        now = self.rounds[number]
        names = (f"choice.{part}{number}" for part in ("numbers", "differences", "signs", "larger"))
        numbers, differences, signs, larger = names
        stages = [
            Operation.of(f"choice.meet{number}", (numbers,), differences, _each(now.meet)),
            self._compared(f"choice.compare{number}", differences, signs),
            Operation.of(f"choice.sharpen{number}", (signs,), larger, self._sharpened),
            Operation.of(f"choice.win{number}", (larger,), _won(number), _each(now.win)),
        ]
        if now.stride > 1:
            reads, winners = (numbers, _won(number)), f"{NUMBERS}{number + 1}"
            stages.append(Operation.of(f"choice.keep{number}", reads, winners, _each(now.keep)))
        return stages

    def _logits(self, be: Backend, pooled: Cts) -> Cts:
        return (be.add_vector(be.linear(pooled, self.plan)[0], self.bias),)

    def _compared(self, name: str, differences: str, signs: str) -> Operation:
        step, scale = self.comparison.step, self.comparison.sharpen.free_scale()

        def run(be: Backend, cts: Cts) -> Cts:
            return apply_all(be, cts, step, scale)

        return replace(Operation.of(name, (differences,), signs, run), refreshes=True)

    def _sharpened(self, be: Backend, signs: Cts) -> Cts:
        return (apply(be, signs[0], self.comparison.sharpen),)

    def _answer(self, be: Backend, joined: Cts, check: Cts) -> Cts:
        smoothed = apply(be, joined[0], smooth_spec())
        there = np.pad(np.ones(self.blocks.size), (0, self.blocks.width - self.blocks.size))
        chosen = be.mul_vector(smoothed, twice(there, self.blocks.slots))
        return (be.add(chosen, be.rotate(check[0], -self.blocks.norm)),)


def _won(number: int) -> str:
    return f"choice.won{number}"


def _each(function: Callable[..., Ct]) -> Callable[..., Cts]:
    """Makes a function of single ciphertexts into one of tensors of one ciphertext each."""
    return partial(_applied, function)


def _applied(function: Callable[..., Ct], be: Backend, *tensors: Cts) -> Cts:
    return (function(be, *(cts[0] for cts in tensors)),)


def _joined(be: Backend, before: Cts, won: Cts) -> Cts:
    return (be.mul(before[0], won[0]),)
