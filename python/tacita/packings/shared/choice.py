"""The likeliest word of a vocabulary and nothing else: logits -> 1 at the largest, 0 at all others.

    choice.logits        of the vector, side by side, repeated over all slots        1 level
    choice.meet0         the differences of numbers that meet                        1
    choice.compare0      a refresh through a step: about 1 or -1                     to the top, less 3 to 8
    choice.sharpen0      1 or 0, to the stated error                                 2 to 5
    choice.win0          1 where a number beats its group                            log2(ways)
    choice.keep0         the winners                                                 1
    choice.meet1 ...     the next round, until one is left
    choice.join1         the product of the rounds so far                            1
    answer               smoothed, so that it is 0 or 1 to the noise                 4

The client gets a one-hot vector where the two largest logits are the stated gap apart. Nearer ones share:
the two words have numbers between 0 and 1, which say that much about their distance, and of no other word.

Which of many numbers in slots is the largest: a tournament in rounds, each of many ways at once.

The numbers of a round lie side by side and repeat over all slots, so a slot vector holds as many copies of
them as fit, and in each copy every number meets another one:

    32,768 slots, 2,048 numbers in 16 copies: number t meets t + 128 k in copy k: groups of 16
               the 128 winners in 256 copies: number t meets t + k in copy k: one group of 128

A round is one comparison of all slots (`approx.comparison`), a product over the copies, which is 1 where a
number beats all of its group, and a sum over the group of what this keeps: the winners, side by side, each
slot of every copy again. No masks: what repeats is summed and multiplied by cyclic rotations. At the end
the products of all rounds multiplied are 1 at the largest number and 0 elsewhere.

Two numbers meet in two copies, once from each side, and the flags of both must add up to one: where they add
up to less their group's winner is too small, and a word far behind them wins. So copies must agree, but noise
differs from slot to slot. A logit is the mean of its copies: a sum by rotations, no level (decision 137).

A tournament of pairs takes a comparison for each doubling, eleven for 2,048; this one takes two.

A larger vocabulary takes several ciphertexts (50,257 words seven of 8,192 in 4 copies), and rounds across
them come first (`Merge`): numbers at the same place meet, each copy compares two other ciphertexts, and one
ciphertext of winners is left, whose rounds are those above. In a batch the cells of a text are its slots
(`columns.cells`): one copy, in which a number meets the one half a round away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from math import comb

import numpy as np
from numpy.typing import NDArray

from tacita.approx.comparison import Comparison, smooth_spec
from tacita.layouts.arrays import Array, Diagonal, ceil_power, is_power, refuse
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.runs import Response
from tacita.layouts.vector import AnswerBlocks, VectorLayout
from tacita.packings.base import Operation
from tacita.packings.encoding import WeightBias, apply_all
from tacita.packings.operations import ANSWER, CHECK
from tacita.packings.shared.answer import side_by_side, twice
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.linear import LinearPlan
from tacita.slots.stage import on_texts

Flags = NDArray[np.bool_]
WON = 0.5  # a difference that every comparison tells


@dataclass(frozen=True, eq=False)
class Merge:
    """One round across ciphertexts of `size` numbers each, repeated over all slots: those at the same place
    meet, and of each group of ciphertexts one is left. groups: of neighbours, two or more."""

    slots: int
    size: int
    groups: tuple[range, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The ciphertexts that meet: a pair for each copy of the differences' ciphertexts."""
        return [pair for group in self.groups for pair in combinations(group, 2)]

    @property
    def copies(self) -> int:
        """How often the numbers repeat in a ciphertext."""
        return self.slots // self.size

    @cached_property
    def meeting(self) -> LinearPlan:
        """Plans the difference of both ciphertexts of a pair, in its copy. One level, no rotation."""
        diagonals: Diagonal = {}
        for number, pair in enumerate(self.pairs):
            output, copy = divmod(number, self.copies)
            for ct, sign in zip(pair, (1.0, -1.0), strict=True):
                diagonals[output, ct, 0] = diagonals.get((output, ct, 0), 0.0) + sign * self._copy(copy)
        outputs = -(-len(self.pairs) // self.copies)
        return LinearPlan.from_diagonals(diagonals, n_inputs=self.groups[-1].stop, n_outputs=outputs)

    @cached_property
    def spreading(self) -> LinearPlan:
        """Plans the result of each pair in all copies, a ciphertext for each. One level."""
        diagonals = {
            (number, number // self.copies, step * self.size): self._copy((number - step) % self.copies)
            for number in range(len(self.pairs))
            for step in range(self.copies)
        }
        inputs = self.meeting.n_outputs
        return LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=len(self.pairs))

    def _copy(self, number: int) -> Array:
        return one_copy(number, self.copies, self.size)

    def meet(self, be: Backend, numbers: Cts) -> Cts:
        """Maps numbers in [0, 1] to the differences of all pairs. One level, none of a single copy."""
        if self.copies == 1:
            return tuple(be.sub(numbers[a], numbers[b]) for a, b in self.pairs)
        return tuple(be.linear(numbers, self.meeting))

    def win(self, be: Backend, larger: Cts) -> Cts:
        """1 where the first number of a pair is the larger one -> of each ciphertext, in all copies, 1 where
        its number is larger than those of its group. log2(the largest group) levels, and one of copies."""
        spread = larger if self.copies == 1 else be.linear(larger, self.spreading)
        flags = dict(zip(self.pairs, spread, strict=True))
        flags |= {(b, a): be.add_const(be.neg(ct), 1.0) for (a, b), ct in flags.items()}
        return tuple(
            product(be, [flags[ct, other] for other in group if other != ct])
            for group in self.groups
            for ct in group
        )

    def keep(self, be: Backend, numbers: Cts, won: Cts) -> Cts:
        """The winners of each group, a ciphertext for each. One level."""
        parts = (slice(group.start, group.stop) for group in self.groups)
        return tuple(be.dot(numbers[part], won[part]) for part in parts)


def merges_of(slots: int, size: int, count: int) -> tuple[Merge, ...]:
    """Rounds for `count` ciphertexts of blocks of `size`, until one is left: those of fewest bootstraps."""
    merges = list[Merge]()
    for groups in _merges(count, slots // size)[1]:
        ends = [count * number // groups for number in range(groups + 1)]
        merges.append(Merge(slots, size, tuple(range(*both) for both in pairwise(ends))))
        count = groups
    return tuple(merges)


@lru_cache(maxsize=1024)
def _merges(count: int, copies: int) -> tuple[int, tuple[int, ...]]:
    """The fewest bootstraps, and how many groups each round has: of differences two, through a step and
    before they are multiplied, and of winners one."""
    options = [(0, tuple[int, ...]())] if count == 1 else []
    for groups in range(1, count // 2 + 1):
        sizes = [(count + number) // groups for number in range(groups)]
        compared, (rest, further) = sum(comb(size, 2) for size in sizes), _merges(groups, copies)
        options.append((2 * -(-compared // copies) + groups + rest, (groups, *further)))
    return min(options)


@dataclass(frozen=True, eq=False)
class Round:
    """One round of the tournament: `size` numbers, repeated with this period; each meets `ways` - 1 others,
    at distances of a stride.

    absent: (size,) where there is no number: stored as 0, it loses against each that is there, and of two
    absent ones the later loses. single: whether they do not repeat; then there are two ways, and both numbers
    of a pair meet the other one.
    """

    size: int
    ways: int
    absent: Flags
    single: bool = False

    @property
    def stride(self) -> int:
        """The distance between the numbers of a group, which is also the number of groups."""
        return self.size // self.ways

    @cached_property
    def meeting(self) -> LinearPlan:
        """Plans the difference of each number and the one that it meets; none of a number with itself. One
        level."""
        diagonals = {(0, 0, k * self.stride): -one_copy(k, self.ways, self.size) for k in range(1, self.ways)}
        own = 1.0 - one_copy(0, self.ways, self.size)
        return LinearPlan.from_diagonals({(0, 0, 0): own, **diagonals}, n_inputs=1, n_outputs=1)

    @cached_property
    def defaults(self) -> Array:
        """What is added to the differences: who wins where no comparison decides."""
        first, parts = np.arange(self.size), [] if self.single else [np.full(self.size, WON)]
        for k in range(1, self.ways):
            other = (first + k * self.stride) % self.size
            both = self.absent & self.absent[other]
            parts.append(np.where(both, np.where(first < other, WON, -WON), 0.0))
        return np.concatenate(parts)

    def meet(self, be: Backend, numbers: Cts) -> Cts:
        """Maps numbers in [0, 1] to their differences. One level, none of a single copy."""
        if self.single:
            differences = be.sub(numbers[0], be.rotate(numbers[0], self.stride))
        else:
            differences = be.linear(numbers, self.meeting)[0]
        return (be.add_vector(differences, self.defaults),)

    def win(self, be: Backend, larger: Cts) -> Cts:
        """1 where the number in this slot is larger than the one that it meets -> in all copies 1 where it is
        larger than all of them. log2(ways) levels and products."""
        (won,), step = larger, self.size
        while step < self.size * self.ways and not self.single:
            won = be.mul(won, be.rotate(won, step))
            step *= 2
        return (won,)

    def keep(self, be: Backend, numbers: Cts, won: Cts) -> Cts:
        """The winner of each group, where its first number was and in every group's copy. One level."""
        return (rotate_sum(be, be.mul(numbers[0], won[0]), self.ways, self.stride),)


def rounds_of(slots: int, size: int, count: int, most: int = 0) -> tuple[Round, ...]:
    """Rounds for `count` numbers in blocks of `size`; both rounds and groups are as few as slots admit. most:
    numbers in a group, 0 for what fits. Raises ShapeError where they do not fit."""
    if not is_power(size) or size > slots:
        raise refuse("vector", f"the largest of {size} numbers in {slots} slots", "use a larger ring")
    rounds, absent = list[Round](), np.arange(size) >= count
    while size > 1:
        now = Round(size, min(size, max(2, slots // size), most or size), absent, size == slots)
        size, absent = now.stride, np.asarray(absent.reshape(now.ways, now.stride).all(axis=0))
        rounds.append(now)
    return tuple(rounds)


def tournament(slots: int, size: int, count: int, most: int = 0) -> tuple[Merge | Round, ...]:
    """All rounds for `count` numbers in ciphertexts of `size`, repeated: across them, and within the last."""
    return *merges_of(slots, size, -(-count // size)), *rounds_of(slots, size, count, most)


NUMBERS, WINNERS = "choice.numbers", "choice.won"
STAGE, LOGITS = "choice.logits", f"{NUMBERS}0"  # that makes the numbers of the first round, and these


@dataclass(frozen=True, eq=False)
class Choice:
    """The tournament of a vocabulary. logits: of a tensor, stored in [0, 1], 0 where there is no word: what
    shares a group adds up to less than its numbers, which must be no advantage. rounds: those across
    ciphertexts first. answer: what is 1 at one word, and the check -> the response. beside: texts whose slots
    are in turn (`slots.stage.Interleaved`)."""

    response: Response
    logits: Callable[[Backend, Cts], Cts]
    rounds: tuple[Merge | Round, ...]
    comparison: Comparison
    answer: Callable[[Backend, Cts, Ct], Cts]
    beside: int = 1

    @staticmethod
    def build(
        dense: WeightBias,
        layout: VectorLayout,
        bounds: tuple[float, float],
        comparison: Comparison,
        most: int = 0,
    ) -> Choice:
        """Chooses by a vector. dense: weight (words, hidden) and bias. bounds: of the vector, of the logits.
        most: as of `rounds_of`. Raises ShapeError for a vector that does not fit three times into the
        slots."""
        slots, words = layout.slots, len(dense[1])
        weight, bias = unsigned(*dense, bounds[1])
        width = min(ceil_power(max(words, layout.period)), max(layout.period, slots // 4))
        blocks = AnswerBlocks(slots, width, words, False, 1.0)
        copies = slots // width
        scaled = weight * (bounds[0] / copies), bias / copies
        products = side_by_side(*scaled, layout, blocks.count, width)
        there = (np.arange(blocks.count * width) < words).reshape(blocks.count, width).astype(np.float64)

        def logits(be: Backend, pooled: Cts) -> Cts:
            return tuple(rotate_sum(be, ct, copies, width) for ct in products.apply(be, pooled))

        def answer(be: Backend, chosen: Cts, check: Ct) -> Cts:
            pairs = zip(chosen, there, strict=True)
            first, *others = (be.mul_vector(ct, twice(part, slots)) for ct, part in pairs)
            return be.add(first, be.rotate(check, -blocks.norm)), *others

        rounds = tournament(slots, width, words, most)
        return Choice(blocks.response, logits, rounds, comparison, answer)

    def operations(self, pooled: str) -> list[Operation]:
        """The operations of the choice, the last of which writes the response. pooled: the vector's
        tensor."""
        stages, joined = [Operation.of(STAGE, (pooled,), LOGITS, self.logits)], dict[bool, str]()
        for number, now in enumerate(self.rounds):
            winners, across = f"{WINNERS}{number}", isinstance(now, Merge)
            stages += self._round(number, now)
            if before := joined.get(across):
                joined[across] = f"choice.joined{number}"
                join = self._join(number)
                stages.append(Operation.of(f"choice.join{number}", (before, winners), joined[across], join))
            else:
                joined[across] = winners
        return [*stages, Operation.of(ANSWER, (*joined.values(), CHECK), ANSWER, self._answer)]

    def _join(self, number: int) -> Callable[[Backend, Cts, Cts], Cts]:
        """The product of what all rounds so far gave, for each ciphertext of logits in rounds across them."""
        owners = [0]
        if isinstance(self.rounds[number], Merge):
            before = [merge.groups for merge in self.rounds[:number] if isinstance(merge, Merge)]
            owners = list(range(len(before[-1])))
            for groups in reversed(before):
                owners = [owner for owner, group in zip(owners, groups, strict=True) for _ in group]

        def join(be: Backend, before: Cts, won: Cts) -> Cts:
            return tuple(be.mul(ct, won[owner]) for ct, owner in zip(before, owners, strict=True))

        return join

    def _round(self, number: int, now: Merge | Round) -> list[Operation]:
        names = (f"choice.{part}{number}" for part in ("numbers", "differences", "signs", "larger"))
        (numbers, differences, signs, larger), beside = names, self.beside
        stages = [
            Operation.of(f"choice.meet{number}", (numbers,), differences, on_texts(now.meet, beside)),
            self._compared(f"choice.compare{number}", differences, signs),
            Operation.of(f"choice.sharpen{number}", (signs,), larger, self._sharpened),
            Operation.of(f"choice.win{number}", (larger,), f"{WINNERS}{number}", on_texts(now.win, beside)),
        ]
        if number + 1 < len(self.rounds):
            reads, winners = (numbers, f"{WINNERS}{number}"), f"{NUMBERS}{number + 1}"
            stages.append(Operation.of(f"choice.keep{number}", reads, winners, on_texts(now.keep, beside)))
        return stages

    def _compared(self, name: str, differences: str, signs: str) -> Operation:
        step, scale = self.comparison.step, self.comparison.sharpen.free_scale()

        def run(be: Backend, cts: Cts) -> Cts:
            return apply_all(be, cts, step, scale)

        return replace(Operation.of(name, (differences,), signs, run), refreshes=True)

    def _sharpened(self, be: Backend, signs: Cts) -> Cts:
        return apply_all(be, signs, self.comparison.sharpen)

    def _answer(self, be: Backend, *tensors: Cts) -> Cts:
        """What is joined, of ciphertexts and of one, and the check -> the response."""
        *joined, (check,) = tensors
        across = joined[0]
        if len(joined) > 1:
            across = tuple(be.mul(ct, joined[1][0]) for ct in across)
        return self.answer(be, apply_all(be, across, smooth_spec()), check)


def one_copy(number: int, copies: int, size: int) -> Array:
    """1 in the copy of this number, 0 in the others."""
    return np.repeat(np.arange(copies) == number, size).astype(np.float64)


def unsigned(weight: Array, bias: Array, bound: float) -> WeightBias:
    """A dense map to numbers within a bound as one to numbers in [0, 1]."""
    return weight * (0.5 / bound), 0.5 + bias * (0.5 / bound)


def product(be: Backend, factors: Sequence[Ct]) -> Ct:
    """Multiplies the factors, by halves: log2(their number) levels."""
    if len(factors) == 1:
        return factors[0]
    middle = len(factors) // 2
    return be.mul(product(be, factors[:middle]), product(be, factors[middle:]))
