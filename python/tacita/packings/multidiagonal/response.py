"""Where the answer of one text on diagonals is: in blocks of a vector, whatever the model reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacita.packings.one_text.response import OneTextResponse
from tacita.packings.sizes import ceil_power


@dataclass(frozen=True)
class DiagonalResponse(OneTextResponse):
    """See `OneTextResponse`."""

    tag: ClassVar[str] = "multidiagonal"

    def fits(self, slots: int, tokens: int, lanes: int, hidden: int, classes: bool) -> bool:
        """Whether it is the answer of such a model: logits or hidden features."""
        return (self.slots, self.width, self.apart) == (slots, ceil_power(hidden), classes)
