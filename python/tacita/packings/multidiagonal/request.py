"""What the client encrypts for one text: hidden states by diagonals, and masks of 1/length at the real
tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.layout import Features
from tacita.packings.one_text.request import OneTextRequest
from tacita.packings.request import Sample

HIDDEN, MASK = "hidden", "mask"


@dataclass(frozen=True)
class DiagonalRequest(OneTextRequest):
    """Of all tokens, the plain mask is followed by masks in the layout of the scores."""

    tag: ClassVar[str] = "multidiagonal"

    @cached_property
    def layout(self) -> Features:
        """Of the hidden states. Raises ShapeError for sizes that the packing does not admit."""
        return Features.hidden(self.slots, self.tokens, self.heads, self.head_size)

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor. Raises ShapeError for sizes that the packing does not admit."""
        scores = self.layout.shape.with_rows(self.tokens).count if self.all_tokens else 0
        return {HIDDEN: self.layout.count, MASK: 1 + scores}

    def pack(self, inputs: Sequence[Sample]) -> dict[str, list[Array]]:
        """One input: (tokens, size) hidden states and (tokens,) mask of 0/1 -> slot vectors, in [-1, 1] for
        calibrated inputs. Errors: see `only`."""
        x, keep = self.only(inputs, "on diagonals")
        masks = [by_token(self.layout, keep), *(by_key(self.layout, keep) if self.all_tokens else [])]
        return {HIDDEN: self.layout.pack(x), MASK: masks}


def by_token(layout: Features, keep: Array) -> Array:
    """keep (tokens,) -> keep[token] in every diagonal and head."""
    _, t, _ = layout.shape.coordinates
    return layout.shape.tiled(keep[t])


def by_key(layout: Features, keep: Array) -> list[Array]:
    """keep (tokens,) -> one slot vector per ciphertext of scores, S^T[key, query]: keep[key]."""
    shape = layout.shape.with_rows(layout.shape.columns)
    q, t, _ = shape.coordinates
    firsts = shape.places * np.arange(shape.count)
    return [shape.tiled(keep[(first + q + t) % shape.columns]) for first in firsts]
