"""What the client encrypts for one text: hidden states by rows, and masks of 1/length at the real tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.one_text.request import OneTextRequest
from tacita.packings.request import Sample
from tacita.packings.rows.heads.windows import HeadWindow, head_windows, mask_numbers, pack_masks
from tacita.packings.rows.layout import FeatureLayout, RowsShape, can_carry, carry
from tacita.packings.sizes import refuse

HIDDEN, MASK, MEAN = "hidden", "mask", "average"  # a node of a model may be called mean


@dataclass(frozen=True)
class RowsRequest(OneTextRequest):
    """first_token: whether an attention has a single query: the last mask ciphertext is then the plain mask.
    carried: whether token 0 stands in place of the copies. mean: whether the mean over tokens is asked for.
    """

    tag: ClassVar[str] = "rows"

    first_token: bool
    carried: bool
    mean: bool

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
        calibrated inputs. Errors: see `only`."""
        (x, keep), shape = self.only(inputs, "in rows"), self.layout.shape
        masks = pack_masks(self.windows, keep) if self.all_tokens else []
        masks += [np.repeat(keep, shape.window)] if self.first_token else []
        out = {HIDDEN: [carry(self.layout, x)] if self.carried else self.layout.pack(x), MASK: masks}
        return out | ({MEAN: [np.repeat(keep, shape.window)]} if self.mean else {})
