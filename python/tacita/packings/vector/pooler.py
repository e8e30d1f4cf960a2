"""The tanh pooler on the vector of the first token."""

from __future__ import annotations

from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.stored import Stored, apply, output_bound
from tacita.packings.vector.layout import CyclicMap, VectorLayout
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class Pooler:
    """tanh(W x + b) of a vector in vector packing."""

    dense: CyclicMap
    tanh: Spec

    @staticmethod
    def build(weight: Array, bias: Array, layout: VectorLayout, entry: float, tanh: Spec) -> Pooler:
        """layout: of x. entry: bound of x."""
        form = Stored.input_of(tanh)
        matrix, shift = weight * (entry * form.scale), bias * form.scale + form.offset
        return Pooler(CyclicMap.build(matrix, shift, [layout.index], [layout.index]), tanh)

    def pre_activation(self, be: Backend, x: Ct) -> Ct:
        """x / entry -> stored for tanh; one level."""
        return self.dense.apply(be, [x])[0]

    def activate(self, be: Backend, inner: Ct) -> Ct:
        """tanh / its largest value; the spec's levels."""
        return apply(be, inner, self.tanh, 1.0 / self.exit)

    @property
    def exit(self) -> float:
        """Bound of the result."""
        return output_bound(self.tanh)
