"""What a client encrypts, whatever the packing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacita.errors import InputError

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, features) and mask (tokens,) of 0 and 1


def check_sample(sample: Sample, tokens: int, size: int) -> None:
    """Raises InputError for an input of another shape."""
    hidden, mask = sample
    if hidden.shape != (tokens, size) or mask.shape != (tokens,):
        message = f"an input of shape {hidden.shape} with mask {mask.shape}, expected {(tokens, size)}"
        raise InputError(message, hint="pad to the plan's tokens")


class Request(Protocol):
    """What the client encrypts. `pack` takes as many samples as fit and refuses others with an InputError."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Ciphertexts per tensor."""
        ...

    def pack(self, samples: Sequence[Sample]) -> dict[str, list[Array]]:
        """Samples -> tensor name -> slot vectors."""
        ...
