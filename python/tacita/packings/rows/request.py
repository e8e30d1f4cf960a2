"""What the client encrypts for one text: hidden states by rows, and masks of 1/length at the real tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.errors import InputError
from tacita.packings.base import Sample
from tacita.packings.rows.attention import mask_numbers, pack_masks
from tacita.packings.rows.first_token import carry
from tacita.packings.rows.heads import HeadWindow
from tacita.packings.rows.layout import Array, FeatureLayout

HIDDEN, MASK, MEAN = "hidden", "mask", "average"  # a node of a model may be called mean


@dataclass(frozen=True, eq=False)
class RowsRequest:
    """layout, windows: of the hidden states and of the heads. bound: of the hidden states' magnitude.

    all_tokens: whether an attention has as many queries as tokens. first_token: whether one has a single query: the
    last mask ciphertext is then the plain mask. carried: whether token 0 stands in place of the copies. mean:
    whether the mean over tokens is asked for.
    """

    layout: FeatureLayout
    windows: tuple[HeadWindow, ...]
    bound: float
    all_tokens: bool
    first_token: bool
    carried: bool
    mean: bool

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor."""
        masks = (max(mask_numbers(self.windows)) + 1 if self.all_tokens else 0) + self.first_token
        return {HIDDEN: self.layout.count, MASK: masks} | ({MEAN: 1} if self.mean else {})

    def pack(self, inputs: Sequence[Sample]) -> dict[str, list[Array]]:
        """One input: (tokens, size) hidden states and (tokens,) mask of 0/1 -> slot vectors, in [-1, 1] for calibrated inputs.

        Masks hold 1/n for n real tokens: softmax is the same, and the interval of the sums does not grow with
        n. Errors: InputError for more than one input, or one of another shape.
        """
        if len(inputs) != 1:
            raise InputError(f"{len(inputs)} inputs in rows, which hold one", hint="send them one by one")
        (hidden, mask), shape = inputs[0], self.layout.shape
        if hidden.shape != (shape.tokens, self.layout.size) or mask.shape != (shape.tokens,):
            raise InputError(
                f"an input of shape {hidden.shape} with mask {mask.shape}, expected {(shape.tokens, self.layout.size)}",
                hint="pad to the plan's tokens",
            )
        keep = mask / mask.sum()
        masks = pack_masks(self.windows, keep) if self.all_tokens else []
        masks += [np.repeat(keep, shape.window)] if self.first_token else []
        x = hidden / self.bound
        out = {HIDDEN: [carry(self.layout, x)] if self.carried else self.layout.pack(x), MASK: masks}
        return out | ({MEAN: [np.repeat(keep, shape.window)]} if self.mean else {})
