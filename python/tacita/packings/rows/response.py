"""Where the answer of one text in rows is: as in every packing of one text, in blocks of a token or of a
vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacita.packings.one_text.response import OneTextResponse
from tacita.packings.sizes import ceil_power


@dataclass(frozen=True)
class RowsResponse(OneTextResponse):
    """See `OneTextResponse`."""

    tag: ClassVar[str] = "rows"

    def fits(self, slots: int, tokens: int, lanes: int, hidden: int, classes: bool) -> bool:
        """Whether it is the answer of such a model: logits or hidden features, in blocks of a token's or a
        vector's."""
        widths = (slots // tokens, ceil_power(hidden))
        return self.slots == slots and self.width in widths and self.apart == classes
