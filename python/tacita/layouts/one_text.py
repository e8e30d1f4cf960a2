"""The numbers that the requests of one text have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tacita.errors import InputError
from tacita.extras import AT_DEFAULT
from tacita.layouts.arrays import Array, ceil_power, is_power, refuse
from tacita.layouts.base import Answer, Sample, check_sample


@dataclass(frozen=True)
class OneTextRequest:
    """Numbers that say where everything goes: plain data, as a plan states it.

    slots of a ciphertext; tokens of a text; size, bound: of the hidden states; heads, head_size: of
    attentions. all_tokens: whether an attention has as many queries as tokens.
    """

    slots: int
    tokens: int
    size: int
    heads: int
    head_size: int
    bound: float
    all_tokens: bool

    @property
    def lanes(self) -> int:
        """Features side by side."""
        return 1

    def only(self, inputs: Sequence[Sample], where: str) -> Sample:
        """The one input: hidden states within [-1, 1] where calibration saw them so, and the mask as 1/n at
        the n real tokens.

        So softmax is the same, and the interval of the sums does not grow with n. where: says the message.
        Errors: InputError for more than one input, or one of another shape.
        """
        if len(inputs) != 1:
            raise InputError(f"{len(inputs)} inputs {where}, which hold one", hint="send them one by one")
        (hidden, mask) = inputs[0]
        check_sample(inputs[0], self.tokens, self.size)
        return hidden / self.bound, mask / mask.sum()


# Where the answer of one text is: the numbers, a second copy of them, zeros, and a check of the last
# LayerNorm.
#
# A client can thereby tell a broken decode from an answer. Copies that differ or zeros that are not show a
# wrong key, overflow or damage. The norm check is variance * (1/sqrt(variance))^2 of the last LayerNorm at
# the first token: it is 1 as long as that variance lies in its calibrated interval, which an explosion
# anywhere before it spoils.
#
#     apart, of 2 numbers:        block 0 begins with number 0, block 1 with number 1, 2 and 3 with their
#     copies, 4 with the check
#     side by side, of 3 numbers: block 0 is 0, 1, 2 and zeros, block 1 the same again, block 2 begins with
# the
#     check

Place = tuple[int, int]  # ciphertext, slot


def blocks_of(slots: int, period: int, size: int, *, dense: bool) -> tuple[int, bool]:
    """Width of a block, and whether numbers lie apart, of an answer read from a vector of this period.

    dense: whether a dense map gives the numbers. Of few, each has a block, in which products are summed up;
    of more than slots have blocks for, as of a vocabulary, they lie side by side.

    >>> blocks_of(2048, 32, 2, dense=True), blocks_of(2048, 32, 2000, dense=True)
    ((32, True), (512, False))
    """
    if not dense or (2 * size + 1) * period <= slots:
        return period, dense
    return min(ceil_power(max(size, period)), slots // 4), False


def choice_width(period: int, size: int) -> int:
    """The width of a block that holds a choice among `size` words, made of a vector of this period."""
    return ceil_power(max(size, period))


@dataclass(frozen=True)
class OneTextResponse:
    """Numbers that say where the answer is: plain data, as a plan states it. Slots not named must decode to
    about zero.

    slots of a ciphertext; width of a block (a power of two); size: numbers in the answer. apart: each number
    has a block of its own, as logits do; else they lie side by side, as features do, over as many ciphertexts
    as blocks of them take. bound: numbers are stored divided by it. rows: 1, or all tokens of an answer for
    every token (`one_text.every_token`), whose layout is the packing's.
    """

    slots: int
    width: int
    size: int
    apart: bool
    bound: float
    rows: int = field(default=1, metadata=AT_DEFAULT)

    @property
    def features(self) -> int:
        """Features of a token in an answer for every token: the check, the numbers and their copies."""
        return 2 * self.size + 1

    def check(self) -> None:
        """Raises ShapeError where the blocks of an answer do not fit into the slots."""
        if self.rows != 1:
            self.check_tokens()
            return
        blocks = 2 * self.size + 1 if self.apart else 3
        if self.size < 1 or not is_power(self.width) or blocks * self.width > self.slots:
            what = f"an answer of {self.size} numbers in blocks of {self.width} of {self.slots} slots"
            raise refuse(
                "one-text", what, "use more tokens or a larger ring: classes need 2*classes + 1 blocks"
            )

    def chooses(self, slots: int, hidden: int) -> bool:
        """Whether it is a choice among words (`packings.shared.choice`), made of a vector of this size."""
        fields = (self.slots, self.width, self.apart, self.bound, self.rows)
        return fields == (slots, choice_width(ceil_power(hidden), self.size), False, 1.0, 1)

    def check_tokens(self) -> None:
        """Raises ShapeError for an answer for every token that the packing does not admit."""
        raise refuse("one-text", f"an answer of {self.rows} rows", "use an answer of one row")

    @property
    def count(self) -> int:
        """Ciphertexts, all real."""
        return 1 if self.apart else -(-self.size // self.width)

    @property
    def places(self) -> tuple[Place, ...]:
        """(ciphertext, slot) of each number."""
        if self.apart:
            return tuple((0, number * self.width) for number in range(self.size))
        return tuple(divmod(number, self.width) for number in range(self.size))

    @property
    def copies(self) -> tuple[Place, ...]:
        """The places of the second copy of each number."""
        further = self.width * (self.size if self.apart else 1)
        return tuple((ct, slot + further) for ct, slot in self.places)

    @property
    def check_place(self) -> Place:
        """The place of half the norm check."""
        return 0, 2 * self.width * (self.size if self.apart else 1)

    def read(self, slots: Sequence[Array]) -> list[Answer]:
        """Decoded ciphertexts -> the one answer and its integrity figures."""
        table = np.stack(list(slots))
        places, copies = self.places, self.copies
        answer, again = (np.array([table[place].real for place in side]) for side in (places, copies))
        used = np.zeros(table.shape, dtype=bool)
        for place in (*places, *copies, self.check_place):
            used[place] = True
        result = Answer(
            values=0.5 * (answer + again) * self.bound,
            disagreement=float(np.max(np.abs(answer - again))) * self.bound,
            leak=float(np.max(np.abs(table[~used]))) * self.bound,
            norm_check=2.0 * float(table[self.check_place].real),
        )
        return [result]


class Unpacking(Protocol):
    """A layout, as far as reading needs it."""

    def pack(self, tensor: Array) -> list[Array]: ...
    def unpack(self, slots: Sequence[Array]) -> Array: ...


def read_tokens(response: OneTextResponse, layout: Unpacking, slots: Sequence[Array]) -> Answer:
    """Decoded ciphertexts -> the answer (tokens, size) and its integrity figures."""
    numbers, size = np.real(layout.unpack(slots)), response.size
    free = np.stack(layout.pack(np.ones(numbers.shape))) == 0.0
    first, again = numbers[:, 1 : size + 1], numbers[:, size + 1 :]
    leak = max(np.max(np.abs(np.stack(slots)[free]), initial=0.0), np.max(np.abs(numbers[1:, 0])))
    return Answer(
        values=0.5 * (first + again) * response.bound,
        disagreement=float(np.max(np.abs(first - again))) * response.bound,
        leak=float(leak) * response.bound,
        norm_check=2.0 * float(numbers[0, 0]),
    )
