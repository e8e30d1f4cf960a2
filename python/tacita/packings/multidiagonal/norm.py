"""LayerNorm on diagonals: variance, then inverse square root and the affine map.

The input arrives centred (the maps before it are built so), so its variance is its mean square.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.layout import Features
from tacita.packings.multidiagonal.linear import over_heads, totals
from tacita.packings.stored import Stored, apply, output_bound
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Norm:
    """rsqrt: of variance + epsilon. entry, exit: bounds of the centred input and of the result. gamma,
    beta: (size,)."""

    layout: Features
    rsqrt: Spec
    epsilon: float
    gamma: Array
    beta: Array
    entry: float
    exit: float

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, in every slot. 2 levels."""
        form = Stored.input_of(self.rsqrt)
        plan = over_heads(self.layout, self.entry**2 * form.scale / self.layout.size, everywhere=True)
        (total,) = be.linear(
            [totals(be, [be.dot(x, x) if len(x) > 1 else be.square(x[0])], self.layout)], plan
        )
        return be.add_const(total, (self.epsilon - form.centre) * form.scale)

    def root(self, be: Backend, variance: Ct) -> Ct:
        """Stored variance -> 1/sqrt(variance + epsilon) / its largest value. Levels: the spec's."""
        return apply(be, variance, self.rsqrt, 1.0 / output_bound(self.rsqrt))

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """(x * root * gamma + beta) / exit. 2 levels below x, 1 below root."""
        gammas = self.layout.vectors(self.gamma * (self.entry * output_bound(self.rsqrt) / self.exit))
        betas = self.layout.vectors(self.beta / self.exit)
        scaled = [be.mul(be.mul_vector(ct, gamma), root) for ct, gamma in zip(x, gammas, strict=True)]
        return tuple(be.add_vector(ct, beta) for ct, beta in zip(scaled, betas, strict=True))
