"""LayerNorm of one text: variance, then inverse square root and the affine map. A layout adds its variance.

The input arrives centred (the maps before it are built so), so its variance is its mean square. Both steps
are stages of their own: the variance is one ciphertext and may be bootstrapped in place of the (up to
several) ciphertexts of the tensor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.one_text.linear import Cts, L
from tacita.packings.stored import Stored, apply, output_bound
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class TextNorm(ABC, Generic[L]):
    """rsqrt: of variance + epsilon. entry, exit: bounds of the centred input and of the result. gamma, beta:
    (size,)."""

    layout: L
    rsqrt: Spec
    epsilon: float
    gamma: Array
    beta: Array
    entry: float
    exit: float

    @abstractmethod
    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt."""

    def root(self, be: Backend, variance: Ct) -> Ct:
        """Stored variance -> 1/sqrt(variance + epsilon) / its largest value. Levels: the spec's."""
        return apply(be, variance, self.rsqrt, 1.0 / output_bound(self.rsqrt))

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """(x * root * gamma + beta) / exit. 2 levels below x, 1 below root."""
        parts = zip(x, *self.vectors, strict=True)
        return tuple(affine(be, ct, root, gamma, beta) for ct, gamma, beta in parts)

    @property
    def vectors(self) -> tuple[list[Array], list[Array]]:
        """gamma and beta as slot vectors, for a stored input and result."""
        gamma = self.gamma * (self.entry * output_bound(self.rsqrt) / self.exit)
        return self.layout.vectors(gamma), self.layout.vectors(self.beta / self.exit)

    @property
    def scale(self) -> float:
        """Stored variance = sum of squares of the stored input * this + offset."""
        return self.entry**2 * Stored.input_of(self.rsqrt).scale / self.layout.size

    @property
    def offset(self) -> float:
        """See `scale`."""
        form = Stored.input_of(self.rsqrt)
        return (self.epsilon - form.centre) * form.scale


def affine(be: Backend, x: Ct, root: Ct, gamma: Array, beta: Array) -> Ct:
    """x * gamma * root + beta."""
    return be.add_vector(be.mul(be.mul_vector(x, gamma), root), beta)
