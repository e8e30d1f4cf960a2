"""What the client encrypts for a step: the newest row of a text as a vector, and the mask of all its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.one_text.request import OneTextRequest
from tacita.packings.request import Sample
from tacita.packings.rows.layout import RowsShape
from tacita.packings.rows.request import HIDDEN, MASK
from tacita.packings.sizes import ceil_power


@dataclass(frozen=True)
class StepRequest(OneTextRequest):
    """tokens: that the whole text may have. The rows of earlier tokens are the server's own (`Circuit.kept`)
    and no part of it."""

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
