"""The numbers that the requests of one text have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacita.errors import InputError
from tacita.packings.request import Sample, check_sample


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
