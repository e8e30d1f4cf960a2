"""What the client encrypts for one text: hidden states by rows, and masks of 1/length at the real tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tacita.layouts.arrays import Array, ceil_power, refuse
from tacita.layouts.base import Answer, Sample
from tacita.layouts.one_text import OneTextRequest, OneTextResponse, blocks_of, read_tokens
from tacita.layouts.rows import FeatureLayout, RowsShape, can_carry, carry
from tacita.layouts.windows import HeadWindow, head_windows, mask_numbers, pack_masks

HIDDEN, MASK, MEAN = "hidden", "mask", "average"  # a node of a model may be called mean


@dataclass(frozen=True)
class RowsRequest(OneTextRequest):
    """What the client encrypts for one text in rows. first_token: whether an attention has a single query:
    the last mask ciphertext is then the plain mask. carried: whether token 0 stands in place of the copies.
    mean: whether the mean over tokens is asked for."""

    tag: ClassVar[str] = "rows"

    first_token: bool
    carried: bool
    mean: bool

    @cached_property
    def layout(self) -> FeatureLayout:
        """The layout of the hidden states. Raises ShapeError for sizes that rows do not admit."""
        return FeatureLayout.dense(RowsShape(self.slots, self.tokens), self.size, copied=True)

    @cached_property
    def windows(self) -> tuple[HeadWindow, ...]:
        """The windows that the heads share. Raises ShapeError for sizes that rows do not admit."""
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
        calibrated inputs. Errors: see `only`."""
        (x, keep), shape = self.only(inputs, "in rows"), self.layout.shape
        masks = pack_masks(self.windows, keep) if self.all_tokens else []
        masks += [np.repeat(keep, shape.window)] if self.first_token else []
        out = {HIDDEN: [carry(self.layout, x)] if self.carried else self.layout.pack(x), MASK: masks}
        return out | ({MEAN: [np.repeat(keep, shape.window)]} if self.mean else {})


# Where the answer of one text in rows is: as in every packing of one text, in blocks of a token or of a
# vector.


@dataclass(frozen=True)
class RowsResponse(OneTextResponse):
    """The answer of one text (`OneTextResponse`) in rows."""

    tag: ClassVar[str] = "rows"

    @cached_property
    def layout(self) -> FeatureLayout:
        """The layout of an answer for every token."""
        return FeatureLayout.dense(RowsShape(self.slots, self.rows), self.features, copied=False)

    def check_tokens(self) -> None:
        """Raises ShapeError for tokens that rows do not admit, or no numbers."""
        RowsShape(self.slots, self.rows)
        if self.size < 1:
            raise refuse("rows", f"an answer of {self.size} numbers", "an answer has one number or more")

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return super().count if self.rows == 1 else -(-self.features * self.rows // self.slots)

    def read(self, slots: Sequence[Array]) -> list[Answer]:
        """Reads the one answer from decoded ciphertexts, also one for every token."""
        return super().read(slots) if self.rows == 1 else [read_tokens(self, self.layout, slots)]

    def fits(self, slots: int, tokens: int, lanes: int, hidden: int, classes: bool) -> bool:
        """Whether it is the answer of such a model: logits or hidden features, in blocks of a token's or a
        vector's; or an answer for every token."""
        if self.rows != 1:
            return (self.slots, self.rows, self.width) == (slots, tokens, slots // tokens)
        blocks = blocks_of(slots, ceil_power(hidden), self.size, dense=classes)
        choices = ((slots // tokens, classes), blocks)
        return self.slots == slots and (self.width, self.apart) in choices


# What the client encrypts for a step: the newest row of a text as a vector, and the mask of all its rows.


@dataclass(frozen=True)
class StepRequest(OneTextRequest):
    """What the client encrypts for one new row of a text. tokens: that the whole text may have. The rows of
    earlier tokens are the server's own (`Circuit.kept`) and no part of it."""

    tag: ClassVar[str] = "step"

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor. Raises ShapeError for numbers that are no layout of rows."""
        RowsShape(self.slots, self.tokens)
        return {HIDDEN: 1, MASK: 1}

    def pack(self, inputs: Sequence[Sample]) -> dict[str, list[Array]]:
        """One text, given whole as in every packing: (tokens, size) hidden states in reverse, of which the
        first alone is sent, and the (tokens,) mask of 0/1. Errors: see `only`."""
        x, keep = self.only(inputs, "in steps")
        vector = np.zeros(ceil_power(self.size))
        vector[: self.size] = x[0]
        return {HIDDEN: [vector], MASK: [np.repeat(keep, self.slots // self.tokens)]}
