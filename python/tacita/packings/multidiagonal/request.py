"""What the client encrypts for one text: hidden states by diagonals, and masks of 1/length at the real
tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tacita.errors import InputError
from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.layout import Features
from tacita.packings.request import Sample

HIDDEN, MASK = "hidden", "mask"


@dataclass(frozen=True)
class DiagonalRequest:
    """Numbers that say where everything goes: plain data, as a plan states it.

    slots of a ciphertext; tokens of a text; size, bound: of the hidden states; heads, head_size: of
    attentions. all_tokens: whether an attention has as many queries as tokens: the plain mask is then
    followed by masks in the layout of the scores.
    """

    tag: ClassVar[str] = "multidiagonal"

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
        calibrated inputs.

        Masks hold 1/n for n real tokens. Errors: InputError for more than one input, or one of another shape.
        """
        if len(inputs) != 1:
            raise InputError(
                f"{len(inputs)} inputs on diagonals, which hold one", hint="send them one by one"
            )
        hidden, mask = inputs[0]
        if hidden.shape != (self.tokens, self.size) or mask.shape != (self.tokens,):
            shapes = f"an input of shape {hidden.shape} with mask {mask.shape}"
            raise InputError(
                f"{shapes}, expected {(self.tokens, self.size)}", hint="pad to the plan's tokens"
            )
        keep = mask / mask.sum()
        masks = [by_token(self.layout, keep), *(by_key(self.layout, keep) if self.all_tokens else [])]
        return {HIDDEN: self.layout.pack(hidden / self.bound), MASK: masks}


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
