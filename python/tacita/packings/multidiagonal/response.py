"""Where the answer of one text on diagonals is: in blocks of a vector, whatever the model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from tacita.omitted import AT_DEFAULT
from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.layout import Features, MultiDiagonal
from tacita.packings.one_text.response import OneTextResponse, blocks_of, read_tokens
from tacita.packings.response import Answer
from tacita.packings.sizes import ceil_power, refuse


@dataclass(frozen=True)
class DiagonalResponse(OneTextResponse):
    """See `OneTextResponse`. matrices: of an answer for every token, that many side by side with `width` rows
    each; else 0."""

    tag: ClassVar[str] = "multidiagonal"

    matrices: int = field(default=0, metadata=AT_DEFAULT)

    @property
    def shape(self) -> MultiDiagonal:
        """Of an answer for every token. Raises ShapeError for sizes that the packing does not admit."""
        return MultiDiagonal(self.slots, self.width, self.rows, self.matrices)

    @cached_property
    def layout(self) -> Features:
        """Of an answer for every token."""
        return Features(self.shape, self.features, self.matrices, self.width)

    def check_tokens(self) -> None:
        """Raises ShapeError for sizes that the packing does not admit, or no numbers."""
        _ = self.shape
        if self.size < 1:
            raise refuse("multidiagonal", f"an answer of {self.size} numbers", "an answer has one or more")

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return super().count if self.rows == 1 else self.layout.count

    def read(self, slots: Sequence[Array]) -> list[Answer]:
        """See `OneTextResponse`."""
        return super().read(slots) if self.rows == 1 else [read_tokens(self, self.layout, slots)]

    def fits(self, slots: int, tokens: int, lanes: int, hidden: int, classes: bool) -> bool:
        """Whether it is the answer of such a model: logits or hidden features; or an answer for every
        token."""
        if self.rows != 1:
            return (self.slots, self.rows) == (slots, tokens)
        blocks = blocks_of(slots, ceil_power(hidden), self.size, dense=classes)
        return self.slots == slots and (self.width, self.apart) == blocks
