"""LayerNorm of a vector (`one_text.norm`): one level less, for a bound that makes its scale an integer."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.one_text.norm import TextNorm
from tacita.packings.rotations import rotate_sum
from tacita.packings.stored import Stored
from tacita.packings.vector.layout import VectorLayout
from tacita.slots.base import Backend, Ct


def exact_bound(bound: float, rsqrt: Spec, size: int) -> float:
    """The least bound >= `bound` for which the variance of a tensor stored by it takes no level to scale: the
    sum of its squares times an integer is then the variance in the stored form of rsqrt."""
    scale = Stored.input_of(rsqrt).scale / size
    return float(np.sqrt(ceil(bound**2 * scale) / scale))


@dataclass(frozen=True, eq=False)
class VectorNorm(TextNorm[VectorLayout]):
    """LayerNorm in vector packing. entry: from `exact_bound`."""

    def variance(self, be: Backend, x: tuple[Ct, ...]) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, in every slot. One level."""
        total = rotate_sum(be, be.square(x[0]), self.layout.period)
        return be.add_const(be.mul_int(total, round(self.scale)), self.offset)
