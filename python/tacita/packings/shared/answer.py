"""The ciphertexts of the answer of one text, of a pooled vector or of every token, laid out as
`layouts.vector` says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.approx.comparison import Comparison, smooth_spec
from tacita.layouts.arrays import Array, Diagonal, IntArray, ceil_power, is_power, refuse
from tacita.layouts.numbered import runs_of
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.runs import Response, Runs
from tacita.layouts.vector import AnswerBlocks, VectorLayout, blocks_of
from tacita.packings.base import Operation
from tacita.packings.encoding import WeightBias, apply_all
from tacita.packings.operations import ANSWER, CHECK
from tacita.packings.shared.linear import Cts, Linear, Map
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan
from tacita.slots.stage import Interleaved


@dataclass(frozen=True, eq=False)
class Answering:
    """Pooled ciphertexts -> response ciphertexts. plan: one ciphertext (logits) or one per pooled ciphertext.

    width: slots to sum over for a logit, 1 for none. keep, bias: cut the sums out, add the bias; none where
    there is nothing to cut or to add.
    """

    blocks: AnswerBlocks
    plan: LinearPlan
    width: int
    keep: tuple[Array, ...]
    bias: tuple[Array, ...]

    def apply(self, be: Backend, pooled: Cts, check: Ct) -> Cts:
        """Makes the response of pooled / entry and the norm check of `operations.norm_check`."""
        out = be.linear(pooled, self.plan)
        if self.keep:
            sums = (rotate_sum(be, ct, self.width) for ct in out)
            out = [be.mul_vector(ct, mask) for ct, mask in zip(sums, self.keep, strict=True)]
        if self.bias:
            out = [be.add_vector(ct, shift) for ct, shift in zip(out, self.bias, strict=True)]
        out[0] = be.add(out[0], be.rotate(check, -self.blocks.norm))
        return tuple(out)

    @property
    def response(self) -> Response:
        """The layout of the response."""
        return self.blocks.response


def vector_answering(dense: WeightBias | None, layout: VectorLayout, entry: float, bound: float) -> Answering:
    """The answer of a vector: its features, or the logits of a dense map, of which more than periods hold
    twice are `wide_logits`. entry, bound: bounds of the vector and of the logits."""
    if dense and not blocks_of(layout.slots, layout.period, len(dense[1]), dense=True)[1]:
        return wide_logits(*dense, layout, entry, bound)
    sizes = layout.slots, layout.period, layout.size
    return block_answering(dense, [layout.index], sizes, (entry, bound), repeated=True)


def block_answering(
    dense: WeightBias | None,
    places: Sequence[IntArray],
    sizes: tuple[int, int, int],
    bounds: tuple[float, float],
    *,
    repeated: bool,
) -> Answering:
    """The answer of features in block 0, or in every block if repeated: the features twice and the check
    behind them (one level), or the logits of a dense map, weight (classes, hidden) and bias (two levels).

    places: of each ciphertext the feature at each slot of a block, or -1. sizes: slots, of a block, features.
    bounds: of the features, and of the logits.

    Block t holds the products of row t, then row t again; a sum over a block leaves logit t at its first
    slot. Raises ShapeError for more classes than blocks hold twice.
    """
    (slots, width, size), (entry, bound), inputs = sizes, bounds, len(places)
    diagonals: Diagonal = {}

    def put(values: Array, number: int, key: tuple[int, int]) -> None:
        at = *key, 0 if repeated else -number * width
        diagonals[at] = diagonals.get(at, 0.0) + block(values, number, slots)

    if dense is None:
        for i, features in enumerate(places):
            for number in (0, 1):
                put(np.where(features >= 0, 1.0, 0.0), number, (i, i))
        plan = LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=inputs, split="baby")
        return Answering(AnswerBlocks(slots, width, size, False, entry), plan, 1, (), ())
    weight, bias = dense
    blocks = AnswerBlocks(slots, width, len(bias), True, bound)
    for i, features in enumerate(places):
        for number, row in enumerate(np.vstack([weight, weight]) * (entry / bound)):
            put(np.where(features >= 0, row[features], 0.0), number, (0, i))
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=1, split="giant")
    keep, offset = np.zeros((2, slots))
    at = np.arange(2 * len(bias)) * width
    keep[at], offset[at] = 1.0, np.tile(bias, 2) / bound
    return Answering(blocks, plan, width, (keep,), (offset,))


def wide_logits(weight: Array, bias: Array, layout: VectorLayout, entry: float, bound: float) -> Answering:
    """The logits of many classes, side by side: as many diagonals a ciphertext as the vector's period has
    slots. Arguments: as of `vector_answering`. Two levels: the first leaves the logits in every block, which
    makes its diagonals as short as a block, the second cuts two. Raises ShapeError for a vector that is too
    long."""
    width, _ = blocks_of(layout.slots, layout.period, len(bias), dense=True)
    answer = AnswerBlocks(layout.slots, width, len(bias), False, bound)
    if width < layout.period:
        raise refuse("vector", f"{len(bias)} numbers of {layout.size} features", "use a larger ring")
    plan = side_by_side(weight * (entry / bound), layout, answer.count, width)
    shift = np.pad(bias / bound, (0, answer.count * width - len(bias))).reshape(answer.count, width)
    there = (np.arange(answer.count * width) < len(bias)).reshape(shift.shape)
    cuts, added = (tuple(twice(part, layout.slots) for part in each) for each in (there, shift))
    return Answering(answer, plan, 1, cuts, added)


def side_by_side(weight: Array, layout: VectorLayout, count: int, width: int) -> LinearPlan:
    """The products of a vector with the rows of a weight (outputs, size), one in each slot of a block of this
    width, in every block of so many ciphertexts. One level; a rotation for each slot of a period."""
    slot, period = np.arange(width), layout.period
    rows = np.pad(weight, ((0, count * width - len(weight)), (0, period - layout.size)))
    diagonals = {
        (ct, 0, step): part[slot, (slot + step) % period]
        for ct, part in enumerate(rows.reshape(count, width, period))
        for step in range(period)
    }
    return LinearPlan.from_diagonals(diagonals, n_inputs=1, n_outputs=count)


def twice(values: Array, slots: int) -> Array:
    """Repeats the values in the first two blocks of the slots; zero behind them."""
    return np.concatenate([values, values, np.zeros(slots - 2 * len(values))])


def block(v: Array, number: int, slots: int) -> Array:
    """Slot vector with v as block `number`, zero elsewhere."""
    out = np.zeros(slots)
    out[number * v.size : (number + 1) * v.size] = v
    return out


def at_first(slots: int) -> Array:
    """1 at slot 0 (of token 0), where the norm check is; zero elsewhere."""
    return block(np.ones(1), 0, slots)


# An answer for every token of one text: a dense map of all rows, twice, and a check of the last LayerNorm.
#
# In the layout of an inner tensor of 2 * size + 1 features: feature 0 is half the norm check at the first
# token and zero at all others, then come a token's numbers, then their copies. Padding's rows hold whatever
# the model gives for them. Both copies come from one map of the same numbers, so copies that differ, or
# numbers where no feature is, show a broken decode whatever those rows hold.


@dataclass(frozen=True, eq=False)
class TokenAnswering:
    """Maps every token to its answer: the numbers, their copies, and a place for the check."""

    response: Response
    map: Map

    @staticmethod
    def build(
        dense: WeightBias, linear: Linear[Any], src: Any, sizes: tuple[int, int], bounds: tuple[float, float]
    ) -> TokenAnswering:
        """Builds the map. dense: weight (outputs, hidden) and bias. src: layout of what is mapped. sizes:
        slots and tokens. bounds: of what is mapped, and of the answer. One level."""
        (weight, bias), (entry, bound) = dense, bounds
        zero, inner = np.zeros((1, weight.shape[1])), linear.bare.inner(2 * len(bias) + 1)
        both = np.concatenate([zero, weight, weight]) * (entry / bound)
        shift = np.concatenate([[0.0], bias, bias]) / bound
        response = token_response(inner, *sizes, len(bias), bound)
        return TokenAnswering(response, linear.affine(both, shift, src, inner))

    def apply(self, be: Backend, x: Cts, check: Ct) -> Cts:
        """Makes the response of x and the norm check, which is in slot 0, as feature 0 of the first token
        is."""
        first, *others = self.map.apply(be, x)
        return be.add(first, check), *others


def token_response(layout: Any, slots: int, tokens: int, size: int, bound: float) -> Response:
    """Describes an answer of so many numbers for every token. layout: of its features."""
    numbers, none = np.arange(1.0, tokens * size + 1.0).reshape(tokens, size), np.zeros((tokens, size))
    first = np.arange(tokens)[:, None] == 0

    def places(norm: Array, once: Array, again: Array) -> Runs:
        return runs_of(np.stack(layout.pack(np.concatenate([norm, once, again], axis=1))))

    once, again = places(0.0 * first, numbers, none), places(0.0 * first, none, numbers)
    zeros = ((0, 0, layout.count * slots, 1, 0),)
    norms = places(1.0 * first, none, none)
    return Response(slots, layout.count, 1, tokens, size, bound, once, again, norms, zeros)


# The likeliest word of a vocabulary and nothing else: logits -> 1 at the largest, 0 at all others.
#
#     choice.logits        of the vector, side by side, repeated over all slots        1 level
#     choice.meet0         the differences of numbers that meet                        1
#     choice.compare0      a refresh through a step: about 1 or -1                     to the top, less 3 to 8
#     choice.sharpen0      1 or 0, to the stated error                                 2 to 5
#     choice.win0          1 where a number beats its group                            log2(ways)
#     choice.keep0         the winners                                                 1
#     choice.meet1 ...     the next round, until one is left
#     choice.join1         the product of the rounds so far                            1
#     answer               smoothed, so that it is 0 or 1 to the noise                 4
#
# The client gets a one-hot vector where the two largest logits are the stated gap apart. Nearer ones share:
# the two words have numbers between 0 and 1, which say that much about their distance, and of no other word.
#
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
#
# A larger vocabulary takes several ciphertexts (50,257 words seven of 8,192 in 4 copies), and rounds across
# them come first (`Merge`): numbers at the same place meet, each copy compares two other ciphertexts, and one
# ciphertext of winners is left, whose rounds are those above. In a batch the cells of a text are its slots
# (`columns.cells`): one copy, in which a number meets the one half a round away.

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
        return np.repeat(np.arange(self.copies) == number, self.size).astype(np.float64)

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
        compared, (rest, further) = sum(map(_pairs, sizes)), _merges(groups, copies)
        options.append((2 * -(-compared // copies) + groups + rest, (groups, *further)))
    return min(options)


def _pairs(size: int) -> int:
    return size * (size - 1) // 2


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
        diagonals = {(0, 0, k * self.stride): -self._copy(k) for k in range(1, self.ways)}
        own = 1.0 - self._copy(0)
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

    def _copy(self, number: int) -> Array:
        """1 in one of the copies that a period of differences has, 0 in the others."""
        return np.repeat(np.arange(self.ways) == number, self.size).astype(np.float64)

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
LOGITS = f"{NUMBERS}0"


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
        plan = side_by_side(weight * bounds[0], layout, blocks.count, width)
        added = np.pad(bias, (0, blocks.count * width - words)).reshape(blocks.count, width)
        there = (np.arange(added.size) < words).reshape(added.shape).astype(np.float64)

        def logits(be: Backend, pooled: Cts) -> Cts:
            pairs = zip(be.linear(pooled, plan), added, strict=True)
            return tuple(be.add_vector(ct, part) for ct, part in pairs)

        def answer(be: Backend, chosen: Cts, check: Ct) -> Cts:
            pairs = zip(chosen, there, strict=True)
            first, *others = (be.mul_vector(ct, twice(part, slots)) for ct, part in pairs)
            return be.add(first, be.rotate(check, -blocks.norm)), *others

        rounds = tournament(slots, width, words, most)
        return Choice(blocks.response, logits, rounds, comparison, answer)

    def operations(self, pooled: str) -> list[Operation]:
        """The operations of the choice, the last of which writes the response. pooled: the vector's
        tensor."""
        stages, joined = [Operation.of("choice.logits", (pooled,), LOGITS, self.logits)], dict[bool, str]()
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
        numbers, differences, signs, larger = names
        stages = [
            Operation.of(f"choice.meet{number}", (numbers,), differences, self._of_texts(now.meet)),
            self._compared(f"choice.compare{number}", differences, signs),
            Operation.of(f"choice.sharpen{number}", (signs,), larger, self._sharpened),
            Operation.of(f"choice.win{number}", (larger,), f"{WINNERS}{number}", self._of_texts(now.win)),
        ]
        if number + 1 < len(self.rounds):
            reads, winners = (numbers, f"{WINNERS}{number}"), f"{NUMBERS}{number + 1}"
            stages.append(Operation.of(f"choice.keep{number}", reads, winners, self._of_texts(now.keep)))
        return stages

    def _of_texts(self, run: Callable[..., Cts]) -> Callable[..., Cts]:
        """The same on vectors of several texts."""

        def on_all(be: Backend, *tensors: Cts) -> Cts:
            one: Any = Interleaved(be, self.beside)
            return run(one, *tensors)

        return run if self.beside == 1 else on_all

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


def unsigned(weight: Array, bias: Array, bound: float) -> WeightBias:
    """A dense map to numbers within a bound as one to numbers in [0, 1]."""
    return weight * (0.5 / bound), 0.5 + bias * (0.5 / bound)


def product(be: Backend, factors: Sequence[Ct]) -> Ct:
    """Multiplies the factors, by halves: log2(their number) levels."""
    if len(factors) == 1:
        return factors[0]
    middle = len(factors) // 2
    return be.mul(product(be, factors[:middle]), product(be, factors[middle:]))
