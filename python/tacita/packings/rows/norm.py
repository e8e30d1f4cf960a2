"""LayerNorm on rows (`one_text.norm`): sums over a window's positions, and a result with copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.one_text.norm import TextNorm, affine
from tacita.packings.rotations import rotate_sum, spread
from tacita.packings.rows.layout import FeatureLayout, restore_copies
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Norm(TextNorm[FeatureLayout]):
    """layout: of the result, with copies; the input uses its first copies only.

    carry: put token 0 in place of the copies, in every token (for `FirstTokenAttention`; see `can_carry`).
    """

    carry: bool = False

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, at least at every first copy. 2
        levels."""
        total = be.dot(x, x) if len(x) > 1 else be.square(x[0])
        block, window = max(self.layout.blocks), self.layout.shape.window
        first = np.arange(window) < block
        if 2 * block <= window:
            total = rotate_sum(be, be.add(total, be.rotate(total, -block)), block)
            # beyond the first copy the sums mix two tokens: cut them off, they could leave the interval
            return be.add_vector(
                be.mul_vector(total, np.where(first, self.scale, 0.0)), np.where(first, self.offset, 0.0)
            )
        start = np.where(np.arange(window) == 0, self.scale, 0.0)
        total = be.mul_vector(rotate_sum(be, total, window), start)
        return be.add_const(spread(be, total, window), self.offset)

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """As everywhere, with copies (or token 0)."""
        scaled = super().normalise(be, x, root)
        if not self.carry:
            return restore_copies(be, scaled, self.layout)
        shape, block = self.layout.shape, self.layout.blocks[0]
        gamma, beta = (_at_first(side[0], shape.tokens) for side in self.vectors)
        first = affine(be, x[0], root, gamma, beta)
        everywhere = spread(be, be.rotate(first, -block), shape.tokens, shape.window)
        return (be.add(scaled[0], everywhere),)


def _at_first(v: Array, tokens: int) -> Array:
    """A window's vector at token 0, zero at the others (period: all slots)."""
    return np.concatenate([v, np.zeros((tokens - 1) * v.size)])
