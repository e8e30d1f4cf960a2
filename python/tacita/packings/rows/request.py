"""What the client encrypts for one text: hidden states by rows, and masks of 1/length at the real tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tacita.errors import InputError
from tacita.packings.arrays import Array
from tacita.packings.request import Sample
from tacita.packings.rows.heads.windows import HeadWindow, head_windows, mask_numbers, pack_masks
from tacita.packings.rows.layout import FeatureLayout, RowsShape, can_carry, carry
from tacita.packings.sizes import refuse

HIDDEN, MASK, MEAN = "hidden", "mask", "average"  # a node of a model may be called mean


@dataclass(frozen=True)
class RowsRequest:
    """Numbers that say where everything goes: plain data, as a plan states it.

    slots of a ciphertext; tokens of a text; size, bound: of the hidden states; heads, head_size: of
    attentions.
    all_tokens: whether an attention has as many queries as tokens. first_token: whether one has a single
    query: the last mask ciphertext is then the plain mask. carried: whether token 0 stands in place of the
    copies. mean: whether the mean over tokens is asked for.
    """

    tag: ClassVar[str] = "rows"

    slots: int
    tokens: int
    size: int
    heads: int
    head_size: int
    bound: float
    all_tokens: bool
    first_token: bool
    carried: bool
    mean: bool

    @property
    def lanes(self) -> int:
        """Features side by side."""
        return 1

    @cached_property
    def layout(self) -> FeatureLayout:
        """Of the hidden states. Raises ShapeError for sizes that rows do not admit."""
        return FeatureLayout.dense(RowsShape(self.slots, self.tokens), self.size, copied=True)

    @cached_property
    def windows(self) -> tuple[HeadWindow, ...]:
        """Of the heads. Raises ShapeError for sizes that rows do not admit."""
        return head_windows(RowsShape(self.slots, self.tokens), self.heads, self.head_size)

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor. Raises ShapeError for numbers that are no layout of rows."""
        if self.carried and not can_carry(self.layout):
            raise refuse("rows", "token 0 beside features that fill their windows", "leave it out")
        masks = (max(mask_numbers(self.windows)) + 1 if self.all_tokens else 0) + self.first_token
        return {HIDDEN: self.layout.count, MASK: masks} | ({MEAN: 1} if self.mean else {})

    def pack(self, inputs: Sequence[Sample]) -> dict[str, list[Array]]:
        """One input: (tokens, size) hidden states and (tokens,) mask of 0/1 -> slot vectors, in [-1, 1] for
        calibrated inputs.

        Masks hold 1/n for n real tokens: softmax is the same, and the interval of the sums does not grow with
        n. Errors: InputError for more than one input, or one of another shape.
        """
        if len(inputs) != 1:
            raise InputError(f"{len(inputs)} inputs in rows, which hold one", hint="send them one by one")
        (hidden, mask), shape = inputs[0], self.layout.shape
        if hidden.shape != (shape.tokens, self.size) or mask.shape != (shape.tokens,):
            raise InputError(
                f"an input of shape {hidden.shape} with mask {mask.shape}, expected "
                f"{(shape.tokens, self.size)}",
                hint="pad to the plan's tokens",
            )
        keep = mask / mask.sum()
        masks = pack_masks(self.windows, keep) if self.all_tokens else []
        masks += [np.repeat(keep, shape.window)] if self.first_token else []
        x = hidden / self.bound
        out = {HIDDEN: [carry(self.layout, x)] if self.carried else self.layout.pack(x), MASK: masks}
        return out | ({MEAN: [np.repeat(keep, shape.window)]} if self.mean else {})
