"""What a client encrypts, whatever the packing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, features) and mask (tokens,) of 0 and 1


class Request(Protocol):
    """What the client encrypts. `pack` takes as many samples as fit and refuses others with an InputError."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Ciphertexts per tensor."""
        ...

    def pack(self, samples: Sequence[Sample]) -> dict[str, list[Array]]:
        """Samples -> tensor name -> slot vectors."""
        ...
