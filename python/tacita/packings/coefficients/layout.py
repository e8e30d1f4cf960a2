"""Coefficients packing: **slot = feature * m/2 + token mod m/2, the second half of the tokens in imaginary
parts.**

m tokens (a power of two) and s slots: a ciphertext holds 2s/m features of all tokens. For 128 tokens in 32768
slots that is 512 features: 768 of them take two ciphertexts, 3072 take six. Slots-to-coefficients brings
these slots to where a product by a plain matrix wants them, and the product leaves its results where
coefficients-to-slots brings them to slots of this layout again; `crates/coefficients/src/arrangement.rs`
follows every bit of the way. The engine computes the same places; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.errors import ShapeError
from tacita.packings.arrays import Array
from tacita.packings.sizes import is_power, refuse


@dataclass(frozen=True)
class CoefficientLayout:
    """A tensor (tokens, size) in ciphertexts of so many slots. Errors: ShapeError for a token count that is
    not admitted."""

    slots: int
    tokens: int
    size: int

    def __post_init__(self) -> None:
        if not is_power(self.tokens) or self.tokens < 2 or self.tokens > self.slots // 4:
            raise refuse(
                "coefficients", f"{self.tokens} tokens", f"a power of two from 2 to {self.slots // 4}"
            )

    @property
    def features(self) -> int:
        """Of one ciphertext."""
        return 2 * self.slots // self.tokens

    @property
    def count(self) -> int:
        """Ciphertexts of the tensor."""
        return -(-self.size // self.features)

    def pack(self, tensor: Array) -> list[Array]:
        """(tokens, size) -> one complex slot vector per ciphertext."""
        if tensor.shape != (self.tokens, self.size):
            raise ShapeError(
                f"pack: tensor {tensor.shape}, layout {(self.tokens, self.size)}", hint="pad the tokens"
            )
        whole = np.zeros((self.tokens, self.count * self.features))
        whole[:, : self.size] = tensor
        real, imaginary = np.split(whole.T, 2, axis=1)
        return list((real + 1j * imaginary).reshape(self.count, self.slots))

    def unpack(self, slots: Sequence[Array]) -> Array:
        """Slot vectors -> (tokens, size)."""
        if len(slots) != self.count:
            raise ShapeError(
                f"unpack: {len(slots)} ciphertexts, the layout has {self.count}", hint="all of one tensor"
            )
        whole = np.concatenate(slots).reshape(-1, self.tokens // 2)
        return np.concatenate([whole.real, whole.imag], axis=1).T[:, : self.size]
