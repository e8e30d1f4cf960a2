"""What a client encrypts, whatever the packing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacita.errors import InputError
from tacita.slots.base import Backend, Ct

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


# Where answers are and what a client decodes of them, whatever the packing; and what tells it that a decode
# is broken.

LOOSE = 0.05  # of an answer, or of 1 where that is smaller


@dataclass(frozen=True)
class Answer:
    """What a client decodes, and how far it is to be trusted. values: (size,), or (tokens, size) of an answer
    for every token, where padding's rows hold anything. disagreement: largest difference between copies.
    leak: largest value where zero belongs. norm_check: 1 when the last LayerNorm worked inside its
    interval."""

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


# Two real ciphertexts as the parts of one complex one: what is linear over the reals then costs half.


def joined(be: Backend, columns: Sequence[Ct], sign: int = 1) -> list[Ct]:
    """=> Pairs real ciphertexts into complex ones: a + sign * i * b for columns two by two; an odd last one
    stays real. No level, no key switch."""
    op = be.add if sign > 0 else be.sub
    pairs = zip(columns[0::2], columns[1::2], strict=False)
    return [op(a, be.mul_i(b)) for a, b in pairs] + list(columns[len(columns) - len(columns) % 2 :])


def doubled_real(be: Backend, z: Ct) -> Ct:
    """Twice the real part. No level, one conjugation."""
    return be.add(z, be.conjugate(z))


def doubled_parts(be: Backend, z: Ct) -> tuple[Ct, Ct]:
    """Twice the real and twice the imaginary part. No level, one conjugation."""
    mirrored = be.conjugate(z)
    return be.add(z, mirrored), be.mul_i(be.sub(mirrored, z))
