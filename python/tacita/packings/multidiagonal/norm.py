"""LayerNorm on diagonals (`one_text.norm`): sums over the features of each head, then over heads."""

from __future__ import annotations

from dataclasses import dataclass

from tacita.packings.multidiagonal.layout import Features
from tacita.packings.multidiagonal.linear import over_heads, totals
from tacita.packings.one_text.norm import TextNorm
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class Norm(TextNorm[Features]):
    """layout: of input and result."""

    def variance(self, be: Backend, x: tuple[Ct, ...]) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, in every slot. 2 levels."""
        squares = be.dot(x, x) if len(x) > 1 else be.square(x[0])
        plan = over_heads(self.layout, self.scale, everywhere=True)
        (total,) = be.linear([totals(be, [squares], self.layout)], plan)
        return be.add_const(total, self.offset)
