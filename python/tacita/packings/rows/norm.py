"""LayerNorm on rows: variance, then inverse square root and the affine map.

The input arrives centred (see linear.py), so its variance is its mean square. Both steps are stages of their
own: the variance is one ciphertext and may be bootstrapped in place of the (up to several) ciphertexts of the
tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.rotations import rotate_sum, spread
from tacita.packings.rows.layout import FeatureLayout, restore_copies
from tacita.packings.stored import Stored, apply, output_bound
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Norm:
    """layout: of the result, with copies; the input uses its first copies only.

    rsqrt: of variance + epsilon. entry, exit: bounds of the centred input and of the result. gamma, beta:
    (size,).
    carry: put token 0 in place of the copies, in every token (for `FirstTokenAttention`; see `can_carry`).
    """

    layout: FeatureLayout
    rsqrt: Spec
    epsilon: float
    gamma: Array
    beta: Array
    entry: float
    exit: float
    carry: bool = False

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, at least at every first copy. 2
        levels."""
        form = Stored.input_of(self.rsqrt)
        scale = self.entry**2 * form.scale / self.layout.size
        offset = (self.epsilon - form.centre) * form.scale
        total = be.dot(x, x) if len(x) > 1 else be.square(x[0])
        block, window = max(self.layout.blocks), self.layout.shape.window
        first = np.arange(window) < block
        if 2 * block <= window:
            total = rotate_sum(be, be.add(total, be.rotate(total, -block)), block)
            # beyond the first copy the sums mix two tokens: cut them off, they could leave the interval
            return be.add_vector(
                be.mul_vector(total, np.where(first, scale, 0.0)), np.where(first, offset, 0.0)
            )
        total = be.mul_vector(rotate_sum(be, total, window), np.where(np.arange(window) == 0, scale, 0.0))
        return be.add_const(spread(be, total, window), offset)

    def root(self, be: Backend, variance: Ct) -> Ct:
        """Stored variance -> 1/sqrt(variance + epsilon) / its largest value. Levels: the spec's."""
        return apply(be, variance, self.rsqrt, 1.0 / output_bound(self.rsqrt))

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """(x * root * gamma + beta) / exit with copies (or token 0). 2 levels below x, 1 below root."""
        gammas = self.layout.vectors(self.gamma * (self.entry * output_bound(self.rsqrt) / self.exit))
        betas = self.layout.vectors(self.beta / self.exit)
        scaled = [_affine(be, ct, root, g, b) for ct, g, b in zip(x, gammas, betas, strict=True)]
        if not self.carry:
            return restore_copies(be, scaled, self.layout)
        shape, block = self.layout.shape, self.layout.blocks[0]
        first = _affine(be, x[0], root, *(_at_first(v, shape.tokens) for v in (gammas[0], betas[0])))
        everywhere = spread(be, be.rotate(first, -block), shape.tokens, shape.window)
        return (be.add(scaled[0], everywhere),)


def _affine(be: Backend, x: Ct, root: Ct, gamma: Array, beta: Array) -> Ct:
    return be.add_vector(be.mul(be.mul_vector(x, gamma), root), beta)


def _at_first(v: Array, tokens: int) -> Array:
    """A window's vector at token 0, zero at the others (period: all slots)."""
    return np.concatenate([v, np.zeros((tokens - 1) * v.size)])
