"""What the client encrypts for a batch: columns of hidden states, and 1/length at the real tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tacita.errors import InputError
from tacita.packings.columns.layout import Array, BatchShape, Columns
from tacita.packings.request import Sample, check_sample

HIDDEN, MASK = "hidden", "mask"


@dataclass(frozen=True)
class BatchRequest:
    """Numbers that say where everything goes: plain data, as a plan states it.

    slots of a ciphertext; tokens of a text; lanes: features side by side; heads, head_size: of attentions, by
    which the columns are ordered; bound: of the hidden states.
    """

    tag: ClassVar[str] = "columns"

    slots: int
    tokens: int
    lanes: int
    heads: int
    head_size: int
    bound: float

    @property
    def size(self) -> int:
        """Features of a hidden state."""
        return self.heads * self.head_size

    @cached_property
    def columns(self) -> Columns:
        """Of the hidden states. Raises ShapeError for sizes that columns do not admit."""
        return Columns.by_heads(BatchShape(self.slots, self.tokens, self.lanes), self.heads, self.head_size)

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor. Raises ShapeError for numbers that are no layout of columns."""
        return {HIDDEN: self.columns.count, MASK: 1}

    def pack(self, inputs: Sequence[Sample]) -> dict[str, list[Array]]:
        """Up to `sequences` inputs, each (tokens, size) hidden states and (tokens,) mask of 0/1 -> slot
        vectors.

        Empty places hold copies of the first input: the server cannot see how full the batch is. Errors:
        InputError for none or too many, or an input of another shape.
        """
        shape, size = self.columns.shape, self.columns.size
        if not 1 <= len(inputs) <= shape.sequences:
            raise InputError(
                f"{len(inputs)} inputs in a batch of {shape.sequences}", hint="split them into batches"
            )
        for sample in inputs:
            check_sample(sample, shape.tokens, size)
        filled = [*inputs, *[inputs[0]] * (shape.sequences - len(inputs))]
        hidden = np.stack([h for h, _ in filled]) / self.bound
        keep = np.stack([m / m.sum() for _, m in filled])
        return {HIDDEN: self.columns.pack(hidden), MASK: [np.repeat(keep.T.reshape(-1), shape.lanes)]}
