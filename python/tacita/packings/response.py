"""Where answers are and what a client decodes of them, whatever the packing; and what tells it that a decode
is broken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LOOSE = 0.05  # of an answer, or of 1 where that is smaller


@dataclass(frozen=True)
class Answer:
    """values: (size,), or (tokens, size) of an answer for every token, where padding's rows hold anything.
    disagreement: largest difference between copies. leak: largest value where zero
    belongs.
    norm_check: 1 when the last LayerNorm worked inside its interval."""

    values: Array
    disagreement: float
    leak: float
    norm_check: float

    def sound(self, agreement: float = math.inf) -> bool:
        """Whether the figures are those of a run that stayed in its calibrated intervals. agreement: how far
        copies may be apart and zeros off (`Plan.agreement`); never more than LOOSE of the answer.
        """
        loose = LOOSE * max(1.0, float(np.max(np.abs(self.values))))
        quiet = max(self.disagreement, self.leak) <= min(agreement, loose)
        return bool(quiet and abs(self.norm_check - 1.0) <= LOOSE and np.all(np.isfinite(self.values)))


class Response(Protocol):
    """Where the answers are."""

    @property
    def count(self) -> int:
        """Ciphertexts."""
        ...

    def read(self, slots: Sequence[Array]) -> list[Answer]:
        """Decoded ciphertexts -> one answer for each place of a request."""
        ...
