"""Where the answer of one text in rows is: as in every packing of one text, in blocks of a token or of a
vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tacita.packings.arrays import Array
from tacita.packings.one_text.response import OneTextResponse, blocks_of, read_tokens
from tacita.packings.response import Answer
from tacita.packings.rows.layout import FeatureLayout, RowsShape
from tacita.packings.sizes import ceil_power, refuse


@dataclass(frozen=True)
class RowsResponse(OneTextResponse):
    """See `OneTextResponse`."""

    tag: ClassVar[str] = "rows"

    @cached_property
    def layout(self) -> FeatureLayout:
        """Of an answer for every token."""
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
        """See `OneTextResponse`."""
        return super().read(slots) if self.rows == 1 else [read_tokens(self, self.layout, slots)]

    def fits(self, slots: int, tokens: int, lanes: int, hidden: int, classes: bool) -> bool:
        """Whether it is the answer of such a model: logits or hidden features, in blocks of a token's or a
        vector's; or an answer for every token."""
        if self.rows != 1:
            return (self.slots, self.rows, self.width) == (slots, tokens, slots // tokens)
        blocks = blocks_of(slots, ceil_power(hidden), self.size, dense=classes)
        known = ((slots // tokens, classes), blocks)
        return self.slots == slots and (self.width, self.apart) in known
